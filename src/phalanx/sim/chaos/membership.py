"""A simulated node's membership: what `node_in_cluster.Member` does, without a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from phalanx.engines.embedded.node.membership import report_of, row_of
from phalanx.errors import PhalanxError
from phalanx.head.nodes import REPORT_EVERY_S
from phalanx.model.ids import CONTROL, node_process_id
from phalanx.node.control_link import RemoteControl, ask
from phalanx.protocol.cluster_messages import (
    Acked,
    Expelled,
    ForwardedReply,
    Join,
    Joined,
    NodeReport,
    View,
    ViewRow,
)
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.requests.cluster import GetViewChanges, ViewChanges

if TYPE_CHECKING:
    from phalanx.sim.chaos.network import End
    from phalanx.sim.chaos.node import SimNode

AT_MOST_EVERY_S = 0.1
VIEW_OLD_AFTER_S = 0.5
RETRY_S = 0.2


class SimMember:
    """The node's connection to the head, its heartbeats, its copy of the cluster's view."""

    trouble = ""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self.link = RemoteControl()
        self.is_stale = ""
        self.is_joined = False
        self._head: End | None = None
        self._dial_at = 0.0
        self._reported_at = 0.0
        self._viewed_at = 0.0
        self._is_viewing = False
        self._last_report: NodeReport | None = None
        self._epoch = 0

    def start(self) -> None:
        """Join, for the first time or again."""
        node = self._node
        world = node.world
        head = world.network.dial(node.host, node, world.network.hosts["head"], CONTROL)
        head.peer, head.tag = CONTROL, "head"
        self._head = head
        head.post(Hello(PROTOCOL_VERSION, node_process_id(node.prefix), "node", 0))
        row, inventory = row_of(node.as_shell), node.bundles.inventory()
        head.post(Join(row, node.name, self._epoch, node.actors.here(), inventory))

    def is_control(self, end: End) -> bool:
        """Whether this is the connection to the head."""
        return end is self._head

    def is_lost(self, end: End) -> bool:
        """A connection ended: whether it was that one."""
        if end is not self._head:
            return False
        self._head = self.link.connection = None
        self._dial_at = self._node.clock() + RETRY_S
        self._is_viewing = False
        return True

    def on_message(self, message: Any) -> None:
        """The head says something."""
        match message:
            case Acked():
                self.link.acked(message)
            case Joined():
                self._joined(message)
            case Expelled() if not self.is_stale:
                self.is_stale = message.reason
                self._node.stop(f"the head refuses it: {self.is_stale}")
            case ForwardedReply():
                self.link.replied(message)
            case _:
                self._node.on_control(message)

    def _joined(self, message: Joined) -> None:
        if self.is_stale:
            return
        assert self._head is not None
        self._epoch = message.epoch
        self.is_joined = True
        self.link.connected(cast(Any, self._head))
        self._node.groups.joined()
        self._last_report = None

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._head is None:
            if now >= self._dial_at:
                self.start()
            return
        if self.link.connection is None:
            return
        if now - self._reported_at >= AT_MOST_EVERY_S:
            report = report_of(self._node.as_shell)
            if report != self._last_report or now - self._reported_at >= REPORT_EVERY_S:
                self._send_report(report)
        if self._node.leases.waiting and now - self._viewed_at >= AT_MOST_EVERY_S:
            self._ask_view(now)

    def round(self) -> None:
        """All messages are handled."""

    @property
    def is_blind(self) -> bool:
        """Whether nothing is heard of other nodes, as there is no head."""
        return self.link.connection is None

    def awaits_view(self, now: float) -> bool:
        """Whether a fresh view is on its way, which is to be waited for."""
        if self.link.connection is not None and now - self._viewed_at >= VIEW_OLD_AFTER_S:
            self._ask_view(now)
        return self._is_viewing

    def _ask_view(self, now: float) -> None:
        if self._is_viewing:
            return
        self._is_viewing, self._viewed_at = True, now

        def answered(answer: Callable[[], ViewChanges]) -> None:
            self._is_viewing = False
            try:
                changes = answer()
            except PhalanxError:
                return
            self._node.others.version = changes.version
            self._node.others.view(View(changes.rows))

        me = node_process_id(self._node.prefix)
        ask(self.link, me, GetViewChanges(self._node.others.version), answered)

    def report_soon(self) -> None:
        """What is free here has changed."""
        self.report_now()

    def report_now(self) -> None:
        """The control store is about to be asked what is free."""
        self._send_report(report_of(self._node.as_shell))

    def _send_report(self, report: NodeReport) -> None:
        self._last_report = report
        self._reported_at = self._node.clock()
        self.link.report(report)

    def own_row(self) -> ViewRow:
        """This node, as the view shows nodes."""
        return row_of(self._node.as_shell)

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Hosts are found by the prefixes of their nodes here."""
