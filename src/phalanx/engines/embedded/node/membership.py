"""A node's membership: it is a cluster of its own, or one of many with a head elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from phalanx.engines.embedded.connection import Connection
from phalanx.engines.embedded.head.shell import ControlShell
from phalanx.engines.embedded.node.control import ControlLink, LocalControl, Mailbox
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.protocol.cluster_messages import Answer, NodeReport, ViewRow
from phalanx.protocol.gateway_messages import Pulled

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell


class Membership(Protocol):
    """What the rest of the node uses."""

    is_stale: str
    """Why the head takes this node for dead; then it must come back as a new one."""

    @property
    def is_blind(self) -> bool:
        """Whether nothing is heard of other nodes, as there is no head."""
        ...

    trouble: str
    """Why the head is not there, as it was noted last; empty while it is."""

    @property
    def link(self) -> ControlLink:
        """The way to the control store."""
        ...

    def stop(self) -> None:
        """Leave."""
        ...

    def start(self) -> None:
        """Join."""
        ...

    def tick(self, now: float) -> None:
        """Time has passed."""
        ...

    def round(self) -> None:
        """All messages that had come are handled."""
        ...

    def awaits_view(self, now: float) -> bool:
        """Whether what is known of other nodes is old, and news are on their way."""
        ...

    def report_soon(self) -> None:
        """What is free here has changed."""
        ...

    def report_now(self) -> None:
        """The control store is about to be asked what is free."""
        ...

    def own_row(self) -> ViewRow:
        """This node, as the view shows nodes."""
        ...

    def is_control(self, connection: Connection) -> bool:
        """Whether this is the connection to the head, or to the gateway."""
        ...

    def is_lost(self, connection: Connection) -> bool:
        """A connection ended: whether it was one of those."""
        ...

    def on_message(self, connection: Connection, message: Any) -> None:
        """One of those says something."""
        ...

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Where other nodes' gateways listen."""
        ...

    def pull(self, name: str, size: int, nodes: list[bytes], on_disk: bool) -> None:
        """Have an object of another node copied here, into shared memory or `on_disk`;
        `NodeStore.pulled` follows."""
        ...


def membership(shell: NodeShell) -> Membership:
    """The kind that the node's configuration asks for."""
    if shell.config.member is None:
        return Alone(shell)
    from phalanx.engines.embedded.node.in_cluster import Member

    return Member(shell, shell.config.member)


def report_of(shell: NodeShell) -> NodeReport:
    """A node's heartbeat."""
    demands = shell.leases.waiting.all()
    available = shell.resources.available()
    if "object_store_memory" in available:
        ledger = shell.store.ledger
        free = ledger.capacity_bytes - ledger.used_bytes
        available["object_store_memory"] = float(max(free, 0))
    return NodeReport(
        available=available,
        devices=shell.resources.devices_left(),
        queued=[(d.place.to_mapping(), d.count) for d in demands],
        running=len(shell.leases.leases),
        run_s=shell.leases.run_s.value,
        bandwidth=shell.bandwidth.value,
        total=shell.resources.total(),
    )


def row_of(shell: NodeShell) -> ViewRow:
    """A node as the view shows it."""
    report = report_of(shell)
    return ViewRow(
        node_id=shell.config.node_id,
        prefix=shell.prefix,
        host="",
        port=0,
        state=DRAINING if shell.leases.is_draining else ALIVE,
        total=report.total or {},
        available=report.available,
        labels=shell.config.labels,
        devices=report.devices,
        queue_length=sum(count for _, count in report.queued),
        run_s=report.run_s,
        bandwidth=report.bandwidth,
    )


class Alone:
    """The control store lives in this process, and no other node ever joins."""

    trouble = ""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.is_stale = ""
        self._mailbox = Mailbox()
        self._has_reported = False
        prefix = shell.prefix

        def to_node(_: bytes, message: Any) -> None:
            self._mailbox.put(self._from_control, message)

        self._control = ControlShell(to_node, is_alone=True)
        self.link = LocalControl(self._mailbox, lambda m: self._control.on_message(prefix, m))

    def _from_control(self, message: Any) -> None:
        if isinstance(message, Answer):
            self.link.answered(message)
        else:
            self._shell.on_control(message)

    def start(self) -> None:
        """See Membership."""
        self._control.join_alone(self.own_row())
        self.report_now()
        self._mailbox.empty()

    def stop(self) -> None:
        """There is nobody to tell."""

    def tick(self, now: float) -> None:
        """See Membership."""
        self.report_now()
        self._control.on_tick(now)

    def round(self) -> None:
        """See Membership."""
        self._has_reported = False
        self._mailbox.empty()
        self._shell.loop.wake_at = self._control.on_round(time.monotonic())
        self._mailbox.empty()

    @property
    def is_blind(self) -> bool:
        """There is no other node."""
        return False

    def awaits_view(self, now: float) -> bool:
        """There is no other node."""
        return False

    def report_now(self) -> None:
        """See Membership. Once a round: what the control store gives away in it, it counts."""
        if not self._has_reported:
            self._has_reported = True
            self.link.report(report_of(self._shell))

    def report_soon(self) -> None:
        """See Membership. Something was given back: that is always news."""
        self._has_reported = False
        self.report_now()

    def own_row(self) -> ViewRow:
        """See Membership."""
        return row_of(self._shell)

    def is_control(self, connection: Connection) -> bool:
        """There is no such connection."""
        return False

    is_lost = is_control

    def on_message(self, connection: Connection, message: Any) -> None:
        """There is no such connection."""

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """There are no other nodes."""

    def pull(self, name: str, size: int, nodes: list[bytes], on_disk: bool) -> None:
        """There are no other nodes."""
        self._shell.store.pulled(Pulled(name, False, "there is no other node", 0, 0.0))
