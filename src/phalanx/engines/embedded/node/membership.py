"""A node's membership: it is a cluster of its own, or one of many with a head elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from phalanx.engines.embedded.connection import Connection
from phalanx.model.ids import JobID
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.node.control_link import ControlLink, LocalControl, Mailbox
from phalanx.node.surroundings import Nobody, Spills
from phalanx.protocol.cluster_messages import (
    Answer,
    Ask,
    EnvironmentKnown,
    JobKnown,
    NodeReport,
    ProcessEnded,
    ViewRow,
)
from phalanx.protocol.gateway_messages import Pulled

if TYPE_CHECKING:
    from phalanx.engines.embedded.head.warming import Warming
    from phalanx.engines.embedded.node.shell import NodeShell
    from phalanx.head.control_plane import ControlPlane
    from phalanx.node.group_places import GroupPlaces

_QUIET_S = 0.25
"""So long after a driver came, a node alone makes its control store, if nobody has needed it."""


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

    def pull(
        self, name: str, size: int, nodes: list[bytes], on_disk: bool, spare: str = ""
    ) -> None:
        """Have an object of another node copied here, into shared memory or `on_disk`;
        `NodeStore.pulled` follows. The file of the copy `spare` that is gone may be used."""
        ...

    def let_go(self, name: str) -> None:
        """A copy of another node's object is gone from here."""
        ...


def spilling(shell: NodeShell, places: GroupPlaces) -> Spills:
    """Who asks the other nodes, if the node's configuration knows of any."""
    if shell.config.member is None:
        return Nobody()
    # Only in a cluster: numpy and what chooses among nodes would be a third of a lone start.
    from phalanx.engines.embedded.node.in_cluster import spilling_of

    return spilling_of(shell, places)


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
        free = ledger.capacity_bytes - ledger.used_bytes + shell.store.spares.total_bytes
        available["object_store_memory"] = float(max(free, 0))
    return NodeReport(
        available=available,
        devices=shell.resources.devices_left(),
        queued=[(d.place.to_mapping(), d.count) for d in demands],
        running=len(shell.leases.leases),
        run_s=shell.leases.run_s.value,
        bandwidth=shell.bandwidth.value,
        total=shell.resources.total(),
        yields=shell.leases.yields().to_mapping(),
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
    """The control store lives in this process, and no other node ever joins.

    Tasks and objects need nothing of it, and a start that waits until it is imported takes a third
    longer. So it is made when somebody first asks something of it, or when the node is idle; until
    then what it has to know is kept for it.
    """

    trouble = ""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.is_stale = ""
        self._mailbox = Mailbox()
        self._has_reported = False
        self._control: ControlPlane | None = None
        self._warming: Warming
        self._kept: list[Any] = []
        self._jobs = 0
        self._make_at = float("inf")
        self.link = LocalControl(self._mailbox, self._to_control)

    @property
    def has_control(self) -> bool:
        """Whether the control store is there already."""
        return self._control is not None

    def _to_control(self, message: Any) -> None:
        if self._control is not None:
            self._control.on_message(self._shell.prefix, message)
            return
        match message:
            case Ask(method="new_job"):
                self._jobs += 1
                self._kept.append(message)  # it counts like this one; its answer comes too late
                self.link.answered(Answer(message.token, JobID.from_int(self._jobs).binary()))
                self._make_at = self._shell.clock() + _QUIET_S
            case JobKnown() | EnvironmentKnown() | ProcessEnded(is_driver=True):
                self._kept.append(message)
            case NodeReport() | ProcessEnded():
                pass  # it is told how the node is when it is made, and nobody owns anything yet
            case _:
                self._make().on_message(self._shell.prefix, message)

    def _make(self) -> ControlPlane:
        from phalanx.engines.embedded.head.warming import Warming
        from phalanx.engines.probing import ThreadProber
        from phalanx.engines.system import SystemClock, print_defect, unforeseeable
        from phalanx.head.control_plane import ControlPlane
        from phalanx.head.outbox import Outbox
        from phalanx.head.state_store import StateStore

        def to_node(_: bytes, message: Any) -> None:
            self._mailbox.put(self._from_control, message)

        state_store = StateStore()
        self._warming = Warming()
        made = self._control = ControlPlane(
            Outbox(to_node, state_store),
            state_store,
            SystemClock(),
            unforeseeable(),
            ThreadProber(),
            is_alone=True,
            report_defect=print_defect,
        )
        made.join_alone(self.own_row())
        made.on_message(self._shell.prefix, report_of(self._shell))
        for message in self._kept:
            made.on_message(self._shell.prefix, message)
        self._kept.clear()
        return made

    def _from_control(self, message: Any) -> None:
        if isinstance(message, Answer):
            self.link.answered(message)
        else:
            self._shell.on_control(message)

    def start(self) -> None:
        """There is nobody to join."""

    def stop(self) -> None:
        """There is nobody to tell."""

    def tick(self, now: float) -> None:
        """See Membership."""
        if self._control is not None:
            self.report_now()
            self._control.on_tick(now)
            if now >= self._make_at and not self._shell.leases.waiting:
                self._warming.step()
        elif now >= self._make_at and not self._shell.leases.waiting:
            self._make()  # the first who needs it need not wait then

    def round(self) -> None:
        """See Membership."""
        self._has_reported = False
        self._mailbox.empty()
        if self._control is not None:
            self._shell.loop.wake_at = self._control.on_round(self._shell.clock())
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

    def pull(
        self, name: str, size: int, nodes: list[bytes], on_disk: bool, spare: str = ""
    ) -> None:
        """There are no other nodes."""
        self._shell.store.pulled(Pulled(name, False, "there is no other node", 0, 0.0))

    def let_go(self, name: str) -> None:
        """There are no copies."""
