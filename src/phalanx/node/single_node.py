"""The membership of a node that is a whole cluster: its head is in its own process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from phalanx.model.ids import JobID
from phalanx.node.dispatch import MessageTable
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.group_places import GroupPlaces
from phalanx.node.head_link import LocalHeadLink
from phalanx.node.leases.demands import Demands
from phalanx.node.leases.remote import LeaseInquiries
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node import Node
from phalanx.node.peers import Peer
from phalanx.protocol.cluster_messages import (
    EnvironmentKnown,
    ForwardedAsk,
    ForwardedReply,
    JobKnown,
    ProcessEnded,
    ViewRow,
)
from phalanx.protocol.report_messages import DevicesSeen, MachineSeen, NodeNumbers, NodeReport
from phalanx.protocol.requests.cluster import NewDriverJob

QUIET_S = 0.25
"""Seconds from the arrival of a driver until the node makes its head. The node makes the head
earlier if something needs it.
"""


class LocalHead(Protocol):
    """A head that runs in this process."""

    def join_alone(self, row: ViewRow) -> None:
        """Make this node the only node of its cluster."""
        ...

    def on_message(self, prefix: bytes, message: Any) -> None:
        """Handle a message of the node."""
        ...

    def on_tick(self, now: float) -> None:
        """Do the work that is due."""
        ...

    def on_round(self, now: float) -> float:
        """Handle the end of a round. Returns the time by which this must be called again."""
        ...


MakeHead = Callable[[Callable[[bytes, Any], None]], LocalHead]
"""Makes a head. `send` (its argument) sends a message to a node, which is named by its prefix."""


class SingleNodeMembership:
    """Passes messages between the node and the head in its process.

    Tasks and objects do not need the head, and to import it would make the node's start a third
    longer. So the head is made when it is first asked something, or when the node is idle. Messages
    that the head must know are kept until then.
    """

    is_stale = False
    trouble = ""

    def __init__(
        self,
        prefix: bytes,
        clock: Callable[[], float],
        *,
        link: LocalHeadLink,
        from_head: MessageTable,
        make_head: MakeHead,
        own_row: Callable[[], ViewRow],
        report: Callable[[], NodeReport],
        waiting: Demands,
        wake_at: Callable[[float], None],
        warm_up: Callable[[], object],
    ) -> None:
        """`wake_at` requests that `round` is called by a given time. `warm_up` imports the code for
        the first gang or job; it is called when the node is idle.
        """
        self._prefix = prefix
        self._clock = clock
        self._link = link
        self._from_head = from_head
        self._make_head = make_head
        self._own_row = own_row
        self._report = report
        self._waiting = waiting
        self._wake_at = wake_at
        self._warm_up = warm_up
        self._head: LocalHead | None = None
        self._sent: deque[Any] = deque()
        """Messages of the head that the node has not handled yet."""
        self._kept: list[Any] = []
        self._jobs = 0
        self._make_at = float("inf")

    @property
    def has_head(self) -> bool:
        """Whether the head exists already."""
        return self._head is not None

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the head's replies."""
        table.on(ForwardedReply, self._link.replied)

    def tick(self, now: float) -> None:
        """Let the head do the work that is due. If the node is idle, make the head."""
        is_idle = now >= self._make_at and not self._waiting
        if self._head is not None:
            self._head.on_tick(now)
            if is_idle:
                self._warm_up()
        elif is_idle:
            self._make()  # done in advance, so that the first user of the head need not wait

    def round(self) -> None:
        """Handle the end of a round: pass on the messages in both directions."""
        self._deliver()
        if self._head is not None:
            self._wake_at(self._head.on_round(self._clock()))
            self._deliver()

    def _deliver(self) -> None:
        """Pass on all messages, also those that are sent meanwhile."""
        while self._link.sent or self._sent:
            for _ in range(len(self._link.sent)):
                self._to_head(self._link.sent.popleft())
            for _ in range(len(self._sent)):
                self._from_head.handle(self._sent.popleft())

    def _to_head(self, message: Any) -> None:
        if self._head is not None:
            self._head.on_message(self._prefix, message)
            return
        match message:
            case ForwardedAsk() if message.kind == NewDriverJob.kind:
                self._jobs += 1
                # the head counts in the same way; its own reply will be ignored
                self._kept.append(message)
                job = msgspec.Raw(msgspec.msgpack.encode(JobID.from_int(self._jobs).binary()))
                self._link.replied(ForwardedReply(message.token, job))
                self._make_at = self._clock() + QUIET_S
            case JobKnown() | EnvironmentKnown() | ProcessEnded(is_driver=True):
                self._kept.append(message)
            case NodeReport() | DevicesSeen() | MachineSeen() | ProcessEnded() | NodeNumbers():
                # The head reads these when it is made. No actor or group has an owner yet.
                pass
            case _:
                self._make().on_message(self._prefix, message)

    def _make(self) -> LocalHead:
        head = self._head = self._make_head(lambda prefix, message: self._sent.append(message))
        self._link.is_connected = True
        head.join_alone(self._own_row())
        head.on_message(self._prefix, self._report())
        for message in self._kept:
            head.on_message(self._prefix, message)
        self._kept.clear()
        return head

    def is_head(self, connection: Peer) -> bool:
        """Return False: the node has no connection to its head."""
        return False

    def heard(self) -> None:
        """Do nothing: the node has no connection to its head."""

    def connection_lost(self, refusal: str, is_about_token: bool, is_given_up: bool) -> None:
        """Do nothing: the node has no connection to its head."""


def single_node(
    setup: NodeSetup,
    effects: NodeEffects,
    make_head: MakeHead,
    wake_at: Callable[[float], None],
    warm_up: Callable[[], object],
    make_spilling: Callable[[LeaseInquiries, GroupPlaces], Spills],
) -> Node[SingleNodeMembership]:
    """Build a node that is a whole cluster. SingleNodeMembership describes the callbacks.

    `make_spilling` makes the part that chooses among nodes. Even on a single node, a policy may
    matter.
    """
    link = LocalHeadLink()

    def membership(node: Node[SingleNodeMembership]) -> SingleNodeMembership:
        node.standing.joined(None, asked_at=0.0)  # the node's own head cannot give the node up
        return SingleNodeMembership(
            node.prefix,
            effects.clock,
            link=link,
            from_head=node.from_head,
            make_head=make_head,
            own_row=node.status.row,
            report=node.status.report,
            waiting=node.leases.waiting,
            wake_at=wake_at,
            warm_up=warm_up,
        )

    return Node(
        setup,
        effects,
        link,
        make_spilling,
        membership,
        reports_every_tick=True,
    )
