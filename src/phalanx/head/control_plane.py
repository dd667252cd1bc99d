"""The control store's shell: runs the machines of nodes, actors and placement groups.

It lives in the head's process, or in the only node's where there is one machine. It speaks with
nodes by messages alone, `send(prefix, message)`, and never unpickles.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from phalanx.engines.embedded.head.warming import Warming
from phalanx.errors import StaleNodeError
from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.placement import ActorPlacing
from phalanx.head.actors.table import ActorTable
from phalanx.head.drivers import Drivers
from phalanx.head.event_gathering import EventGathering
from phalanx.head.groups.control import GroupControl
from phalanx.head.groups.table import GroupTable
from phalanx.head.nodes import HealthLimits, NodeDirectory, NodeRecord
from phalanx.head.requests import ControlRequests
from phalanx.head.state_store import StateStore
from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.observe import cluster_events
from phalanx.protocol.cluster_messages import (
    Acked,
    ActorLost,
    ActorPlaced,
    ActorRefused,
    BundlesGone,
    Committed,
    EnvironmentKnown,
    EventsTold,
    Expelled,
    ForwardedAsk,
    ForwardedReply,
    JobKnown,
    Join,
    Joined,
    Leave,
    LogRead,
    MemberNews,
    NodeDied,
    NodeReport,
    Prepared,
    ProcessEnded,
    Told,
    Via,
    View,
    ViewRow,
)
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.node_messages import (
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
    Ask,
    Reply,
)
from phalanx.protocol.requests.request import Asker, RequestHandlers, Role
from phalanx.protocol.wire_errors import WireError
from phalanx.resources.ports import RandomSource

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler

_ALONE = HealthLimits(period_s=1e9, misses=1)
"""A node in the same process never dies alone."""

Send = Callable[[bytes, Any], None]


class Visitor(Protocol):
    """A connection to who is no node."""

    def send(self, message: msgspec.Struct) -> None:
        """Send it something."""
        ...


class ControlPlane:
    """One cluster's control store."""

    def __init__(
        self,
        send: Send,
        state_store: StateStore | None = None,
        limits: HealthLimits | None = None,
        is_alone: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        rng: RandomSource | None = None,
    ) -> None:
        """`state_store` keeps what must outlive the process; None: nothing must. `wall` is the time
        of day, in seconds since the epoch. `rng`: None for one that nobody foresees."""
        self.send_raw = send
        self.clock = clock
        self.wall = wall
        self.state_store = state_store or StateStore(None)
        self.is_alone = is_alone
        self.address = ""
        """HOST:PORT where nodes find this control store."""
        self.nodes = NodeDirectory(self, _ALONE if is_alone else limits)
        self.jobs = Drivers(self)
        self.groups = GroupControl(self)
        self.group_table = GroupTable(self.nodes.cluster, self.groups)
        self.rng: RandomSource = rng or random.Random(secrets.randbits(64))
        placement = ActorPlacing(self.nodes.cluster, self.group_table, self.rng)
        self.actors = ActorControl(self, placement)
        self.actor_table = ActorTable(self.actors)
        self.events = EventGathering(self)
        self.gangs_if_used: GangScheduler | None = None
        self.requests = ControlRequests(self)
        self.warming = Warming()
        """For who knows when there is nothing else to do."""
        self._connected: dict[bytes, None] = {}
        self._must_place = self._must_look_again = False
        self.state_store.restore(self, self.clock())

    @property
    def batch(self) -> GangScheduler:
        """Queues and gangs; imported when somebody first asks for any."""
        if self.gangs_if_used is None:
            from phalanx.head.gangs.gang_scheduler import GangScheduler

            self.gangs_if_used = GangScheduler(self)
        return self.gangs_if_used

    # ---- sending -----------------------------------------------------------------------------

    def send(self, prefix: bytes, message: Any) -> None:
        """To a node; it is lost when the node is not connected, and said anew when it joins."""
        if prefix in self._connected:
            self.send_raw(prefix, message)

    def reply(self, prefix: bytes, reply: ForwardedReply) -> None:
        """To a node, once all that the reply speaks of is written."""
        self.state_store.when_written(lambda: self.send(prefix, reply))

    def send_node(self, node_id: str, message: Any) -> None:
        """To a node by its id."""
        record = self.nodes.get(node_id)
        if record is not None:
            self.send(record.prefix, message)

    def order(self, node_id: str, message: Any) -> None:
        """To a node by its id, once all that the order rests on is written: what nodes have begun
        or ended, the next head knows."""
        self.state_store.when_written(lambda: self.send_node(node_id, message))

    def post(self, process: bytes, message: Any) -> None:
        """To a process, through its node."""
        self.send(process[:PREFIX_BYTES], Via(process, encode_body([message])))

    def is_connected(self, prefix: bytes) -> bool:
        """Whether a node is there now."""
        return prefix in self._connected

    def broadcast(self, message: Any, but: bytes = b"") -> None:
        """To every node."""
        for prefix in list(self._connected):
            if prefix != but:
                self.send_raw(prefix, message)

    # ---- events ------------------------------------------------------------------------------

    def join_alone(self, row: ViewRow) -> None:
        """The only node, in this process, is there."""
        self._connected[row.prefix] = None
        self.nodes.join(self.clock(), _record(row, "", 0))

    def on_lost(self, prefix: bytes) -> None:
        """A node's connection has ended. It may come back."""
        self._connected.pop(prefix, None)
        self.events.node_gone(prefix)
        self.nodes.disconnected(self._node_id(prefix), self.clock())

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        self.nodes.tick(now)
        self.events.tick(now)
        self.actor_table.tick(now)
        self.group_table.tick(now)
        if self.gangs_if_used is not None:
            self.gangs_if_used.tick()
        must_place, self._must_place = self._must_place, False
        if must_place:
            self.group_table.resources_changed(now)
        if must_place or self._must_look_again:
            self._must_look_again = False
            self.actors.look_again()

    def on_round(self, now: float) -> float:
        """All messages that had come are handled. When to call again, if nothing comes."""
        batch = self.gangs_if_used
        if batch is None:
            return float("inf")
        batch.cycles.round(now)
        return batch.cycles.wake_at

    def on_message(self, prefix: bytes, message: Any) -> None:  # noqa: PLR0912
        """A node says something."""
        now = self.clock()
        match message:
            case Join():
                self._join(prefix, message, now)
            case NodeReport():
                self._report(prefix, message, now)
            case _ if prefix not in self._connected:
                return  # it was given up: what it said before it knew that is void, as it is
            case Leave():
                self.nodes.leave(self._node_id(prefix), message.reason)
            case ForwardedAsk():
                self.answer(prefix, message)
            case Told():
                for inner in decode_body(message.body):
                    self.on_message(prefix, inner)
                self.state_store.when_written(lambda: self.send(prefix, Acked(message.token)))
            case Via():
                for inner in decode_body(message.body):
                    self._from_process(message.process, inner)
            case ActorPlaced():
                self.actors.placed(prefix, message)
            case ActorLost():
                self.actors.lost(message)
            case ActorRefused():
                self.actors.refused(prefix, message)
            case ProcessEnded():
                self.process_ended(message.process, message.is_driver, now)
            case JobKnown():
                self.jobs.known(message)
            case EnvironmentKnown():
                self.jobs.environments[message.key] = message
            case Prepared():
                node = self._node_id(prefix)
                if self.gangs_if_used is not None:
                    self.gangs_if_used.applier.prepared(message)
                self.group_table.prepared(node, message.group, message.attempt, message.ok, now)
            case Committed():
                node = self._node_id(prefix)
                self.group_table.committed(node, message.group, message.attempt, message.ok, now)
            case EventsTold():
                self.events.told(prefix, message)
            case MemberNews() if self.gangs_if_used is not None:
                self.gangs_if_used.member_news(self._node_id(prefix), message)
            case LogRead() if self.gangs_if_used is not None:
                self.gangs_if_used.logs.answered(message)
            case BundlesGone():
                node = self._node_id(prefix)
                back = self.group_table.give_backs.awaited(node, message.group, message.attempt)
                if self.gangs_if_used is not None:
                    self.gangs_if_used.applier.given_back(message.group, back)
                self.group_table.returned(node, message.group, message.attempt)

    def answer(self, prefix: bytes, ask: ForwardedAsk) -> None:
        """Reply to a request that came by way of a node."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            self.reply(prefix, ForwardedReply(ask.token, result, error))

        role = Role.PROCESS if ask.origin else Role.VISITOR
        if ask.origin == node_process_id(prefix):
            role = Role.NODE
        self.handlers_of(ask.kind).answer(
            ask.kind, ask.body, Asker(role, ask.origin, send if ask.token else None, prefix)
        )

    def answer_visitor(self, visitor: Visitor, ask: Ask) -> None:
        """Reply to who is no node, such as the command line on the head's machine."""

        def send(result: msgspec.Raw, error: WireError | None) -> None:
            reply = Reply(ask.token, result, error)
            self.state_store.when_written(lambda: visitor.send(reply))

        self.handlers_of(ask.kind).answer(ask.kind, ask.body, Asker(Role.VISITOR, b"", send))

    def handlers_of(self, kind: int) -> RequestHandlers:
        """Those of queues, gangs and jobs are made when somebody first asks for any."""
        handlers = self.requests.handlers
        return handlers if kind in handlers else self.batch.handlers

    def _from_process(self, process: bytes, message: Any) -> None:
        match message:
            case ActorReady():
                self.actors.ready(process, message)
            case ActorFailed():
                self.actor_table.failed(message.actor, message.error)
            case ActorLeaving():
                self.actor_table.leaving(message.actor, message.reason)
            case ActorUnreferenced():
                self.actor_table.unreferenced(message.actor)

    def _node_id(self, prefix: bytes) -> str:
        record = self.nodes.of_prefix(prefix)
        return "" if record is None else record.node_id

    def gather_events(self, asker: Asker[list[dict[str, Any]]]) -> None:
        """Answer with what all nodes recorded."""
        self.events.gather(asker, self._connected)

    # ---- nodes -------------------------------------------------------------------------------

    def _join(self, prefix: bytes, message: Join, now: float) -> None:
        row = message.row
        try:
            if row.prefix != prefix:
                raise ValueError("a node joins under its own prefix")
            report = NodeReport(available=row.available, devices=row.devices)
            record = self.nodes.join(now, _record(row, message.hostname, message.epoch), report)
        except (StaleNodeError, ValueError) as error:
            self.send_raw(prefix, Expelled(str(error), isinstance(error, StaleNodeError)))
            return
        self._connected[prefix] = None
        self.events.record(
            cluster_events.NodeJoined(
                at=time.time(),
                node=prefix.hex(),
                hostname=record.hostname,
                epoch=record.epoch,
            )
        )
        self.send_raw(prefix, Joined(record.epoch))
        _, rows = self.nodes.changes_since(0)
        self.send_raw(prefix, View(rows, is_whole=True))
        self.jobs.node_joined(prefix)
        self.actors.node_joined(record, message.actors)
        bundles = message.bundles
        self.group_table.inventory(record.node_id, bundles.held, bundles.ended, now)
        if self.gangs_if_used is not None:
            self.gangs_if_used.node_joined(record)

    def _report(self, prefix: bytes, message: NodeReport, now: float) -> None:
        record = self.nodes.of_prefix(prefix)
        if record is None:
            return
        total = message.total
        if total == record.totals:
            message.total = None
        try:
            changed = self.nodes.report(now, record.node_id, message)
        except StaleNodeError as error:
            self.send_raw(prefix, Expelled(str(error), is_stale=True))
            return
        if message.total is not None:
            self.node_changed(record)
        if changed:
            self._must_place = True
            if self.gangs_if_used is not None:
                self.gangs_if_used.cycles.resources_changed()

    def group_created(self) -> None:
        """Actors may wait for its bundles: what nodes reported came before they were confirmed."""
        self._must_look_again = True

    def node_changed(self, record: NodeRecord) -> None:
        """A node joined, drains, or has other totals (effect of the directory)."""
        self.state_store.put_node(record)
        if not self.is_alone:
            self.broadcast(View([self.nodes.row(record.node_id)]))
        self._must_place = True
        if self.gangs_if_used is not None:
            self.gangs_if_used.cycles.nodes_changed()

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """A node is given up: all that ran there is lost (effect of the directory)."""
        now = self.clock()
        self.state_store.put_node(record)
        died = NodeDied(record.prefix, record.node_id, reason)
        self.broadcast(died, but=record.prefix)
        self.send(record.prefix, Expelled(reason, is_stale=True))
        self._connected.pop(record.prefix, None)
        self.events.node_gone(record.prefix)
        self.events.record(
            cluster_events.NodeDied(at=time.time(), node=record.prefix.hex(), reason=reason)
        )
        self.actors.node_died(record, reason)
        self.jobs.node_died(record.prefix)
        if self.gangs_if_used is not None:
            self.gangs_if_used.applier.node_gone(record.node_id)
        self.group_table.node_gone(record.node_id, now)
        if self.gangs_if_used is not None:
            self.gangs_if_used.cycles.nodes_changed()

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """A driver or worker is gone: what it owned goes."""
        self.actor_table.process_gone(process)
        self.group_table.creator_gone(process, now)
        if is_driver:
            self.jobs.driver_gone(process)


def _record(row: ViewRow, hostname: str, epoch: int) -> NodeRecord:
    return NodeRecord(
        node_id=row.node_id,
        prefix=row.prefix,
        host=row.host,
        port=row.port,
        hostname=hostname,
        totals=row.total,
        labels=row.labels,
        epoch=epoch,
    )
