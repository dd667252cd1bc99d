"""The messages of nodes, and the part of the head that handles each."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.errors import NotAllowedError
from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.table import ActorTable
from phalanx.head.answering import Answering
from phalanx.head.clock import WatchedClock
from phalanx.head.devices import Devices
from phalanx.head.drivers import Drivers
from phalanx.head.event_gathering import EventGathering
from phalanx.head.gangs.interface import GangSchedulerInterface
from phalanx.head.groups.table import GroupTable
from phalanx.head.joining import Joining
from phalanx.head.log_reading import LogReading
from phalanx.head.machine_use import MachinesInUse
from phalanx.head.metrics import HeadMetrics
from phalanx.head.node_use import NodeUseReading
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.head.packages import Packages
from phalanx.head.rights.audit import DENIED
from phalanx.head.rights.authorize import Asking
from phalanx.head.rights.control import Rights
from phalanx.head.state_queries import StateQueries
from phalanx.head.state_store import StateStore
from phalanx.model.node_deaths import KILLED, ORDERLY
from phalanx.model.principals import NODE, Principal, Role
from phalanx.model.rights import Verb
from phalanx.protocol.actor_messages import ActorLost, ActorPlaced, ActorRefused
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    Committed,
    FetchPackage,
    LogRead,
    MemberNews,
    MemberPrepares,
    MemberUsed,
    MemberUseRead,
    Prepared,
    RunNews,
    StepEnded,
    StepStarted,
)
from phalanx.protocol.cluster_messages import (
    EnvironmentKnown,
    ForwardedAsk,
    ForwardedReply,
    JobKnown,
    ProcessEnded,
    Via,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import (
    Acked,
    Expelled,
    Join,
    Leave,
    Probe,
    Probed,
    Reported,
)
from phalanx.protocol.node_messages import ActorFailed, ActorLeaving, ActorReady, ActorUnreferenced
from phalanx.protocol.report_messages import (
    DevicesSeen,
    EventsReported,
    MachineSeen,
    NodeLogRead,
    NodeNumbers,
    NodeReport,
    NodeUseRead,
    StateReported,
)
from phalanx.protocol.requests.request import NOTHING
from phalanx.protocol.wire_errors import to_wire


class Parts(Protocol):
    """The parts of a head that handle messages of nodes."""

    clock: WatchedClock
    outbox: Outbox
    state_store: StateStore
    rights: Rights
    answering: Answering
    nodes: NodeDirectory
    machines: MachinesInUse
    devices: Devices
    drivers: Drivers
    actors: ActorControl
    actor_table: ActorTable
    group_table: GroupTable
    gangs: GangSchedulerInterface
    state: StateQueries
    events: EventGathering
    logs: LogReading
    node_use: NodeUseReading
    packages: Packages
    metrics: HeadMetrics
    resources_changed: bool
    """Whether free resources have changed since the last tick."""

    def on_message(self, prefix: bytes, message: Any, key: str = "") -> None:
        """Handle a message that was sent inside another message."""
        ...

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """End everything that belonged to a process that has ended."""
        ...


class NodeMessages:
    """Hands each message of a node to the part that handles it."""

    def __init__(self, head: Parts, joining: Joining) -> None:
        self._head = head
        self._joining = joining

    def take_in(self, prefix: bytes, message: Any) -> None:  # noqa: PLR0912, PLR0915
        """Handle a message that the node may send."""
        # Messages that every job causes come first, because the cases are tried in this order.
        head = self._head
        now = head.clock.now()
        match message:
            case Join():
                self._joining.join(prefix, message, now)
            case NodeReport():
                self.report(prefix, message, now)
            case _ if not head.outbox.is_connected(prefix):
                # The head has given up the node. Messages that it sent before it learned this do
                # not count.
                return
            case ForwardedAsk():
                head.answering.answer(prefix, message)
            case Reported():
                for inner in decode_body(message.body):
                    head.on_message(prefix, inner)
                head.state_store.when_written(
                    lambda: head.outbox.send(prefix, Acked(message.token))
                )
            case Probe():
                head.outbox.send(prefix, Probed())
            case MemberNews() | MemberPrepares() | MemberUsed() | RunNews() | StepEnded():
                head.gangs.member_news(self._node_id(prefix), message)
            case Prepared():
                node = self._node_id(prefix)
                attempts = head.group_table.attempts
                attempts.prepared(node, message.group, message.attempt, message.ok, now)
                head.gangs.prepared(node, message, now)
            case Committed():
                node = self._node_id(prefix)
                attempts = head.group_table.attempts
                attempts.committed(node, message.group, message.attempt, message.ok, now)
                head.gangs.committed(node, message, now)
            case BundlesGone():
                node = self._node_id(prefix)
                head.group_table.returned(node, message.group, message.attempt)
                head.gangs.returned(node, message)
            case Via():
                for inner in decode_body(message.body):
                    self._from_process(message.process, inner)
            case MachineSeen():
                head.machines.seen(self._node_id(prefix), message)
            case DevicesSeen():
                head.devices.seen(self._node_id(prefix), message)
            case Leave():
                node, death = self._node_id(prefix), KILLED if message.is_failure else ORDERLY
                head.nodes.leave(node, message.reason, death)
            case ActorPlaced():
                head.actors.placed(prefix, message)
            case ActorLost():
                head.actors.lost(message)
            case ActorRefused():
                head.actors.refused(prefix, message)
            case ProcessEnded():
                head.process_ended(message.process, message.is_driver, now)
            case JobKnown():
                head.drivers.known(message)
            case EnvironmentKnown():
                head.drivers.environment_known(message)
            case StateReported() | EventsReported() | NodeLogRead() | NodeUseRead() | NodeNumbers():
                self._answered(prefix, message)
            case FetchPackage():
                head.packages.fetched(prefix, message)
            case LogRead() | MemberUseRead() | StepStarted():
                head.gangs.node_answered(message)

    def _answered(
        self,
        prefix: bytes,
        message: StateReported | EventsReported | NodeLogRead | NodeUseRead | NodeNumbers,
    ) -> None:
        """Handle a node's answer, or the numbers that all nodes send regularly."""
        head = self._head
        match message:
            case StateReported():
                head.state.reported(prefix, message)
            case EventsReported():
                head.events.reported(prefix, message)
            case NodeLogRead():
                head.logs.answered(prefix, message)
            case NodeUseRead():
                head.node_use.answered(prefix, message)
            case NodeNumbers():
                head.metrics.reported(self._node_id(prefix), message)

    def report(self, prefix: bytes, message: NodeReport, now: float) -> None:
        """Handle a node's report of its free resources."""
        if self._joining.report(prefix, message, now):
            self._head.resources_changed = True

    def _from_process(self, process: bytes, message: Any) -> None:
        head = self._head
        match message:
            case ActorReady():
                head.actors.ready(process, message)
            case ActorFailed():
                head.actor_table.failed(message.actor, message.error)
            case ActorLeaving():
                head.actor_table.leaving(message.actor, message.reason)
            case ActorUnreferenced():
                head.actor_table.unreferenced(message.actor)

    def refuse(self, prefix: bytes, message: Any, refusal: NotAllowedError) -> None:
        """Refuse a message of a node that goes beyond the rights of the node's key."""
        head = self._head
        if isinstance(message, Join):
            head.outbox.send_to_stranger(prefix, Expelled(str(refusal), is_stale=False))
        elif isinstance(message, ForwardedAsk) and message.token:
            reply = ForwardedReply(message.token, NOTHING, to_wire(refusal))
            head.outbox.reply(prefix, reply)
        asking = Asking(Principal(NODE, prefix.hex()), Role.USER)
        what, origin = type(message).__name__, head.nodes.display_name(prefix)
        head.rights.note(asking, origin, Verb.JOIN, what, str(refusal), DENIED)

    def _node_id(self, prefix: bytes) -> str:
        record = self._head.nodes.of_prefix(prefix)
        return "" if record is None else record.node_id
