"""The head: composes the machines of nodes, actors, placement groups, gangs and drivers.

It lives in the head's process, or in the node's process on a cluster of one machine. It
communicates with nodes only by messages, and never unpickles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx.errors import NotAllowedError
from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.node_choice import ActorNodeChoice
from phalanx.head.actors.requests import ActorRequests
from phalanx.head.actors.table import ActorRecord
from phalanx.head.answering import Answering
from phalanx.head.clock import WatchedClock, step_text
from phalanx.head.devices import Devices
from phalanx.head.draining import Draining
from phalanx.head.drivers import Drivers
from phalanx.head.effects import HeadEffects
from phalanx.head.event_gathering import EventGathering
from phalanx.head.events.event_log import EventLog
from phalanx.head.events.nodes import NodeRecorder
from phalanx.head.events.unplaceable import Unplaceable
from phalanx.head.full_store import FullStore
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.interface import GangSchedulerInterface, NullGangScheduler
from phalanx.head.groups.control import GroupControl
from phalanx.head.groups.requests import GroupRequests
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.joining import Joining, record_of
from phalanx.head.key_values import KeyValues
from phalanx.head.log_reading import LogReading
from phalanx.head.machine_use import MachinesInUse
from phalanx.head.metrics import HeadMetrics
from phalanx.head.node_requests import NodeRequests
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.rights.audit import DENIED, RecentAudit
from phalanx.head.rights.authorize import Asking
from phalanx.head.rights.control import ONE_PERSON, Rights, RightsSetup
from phalanx.head.rights.node_keys import NodeKeys
from phalanx.head.rights.objects import Objects
from phalanx.head.rights.roles import Roles
from phalanx.head.rights.tokens import Tokens, decode_rows
from phalanx.head.setup import DEFAULT_SETUP, HeadSetup, HeadShell
from phalanx.head.state_queries import StateQueries
from phalanx.head.state_store import StateStore, StoredState
from phalanx.head.status import Health, Status
from phalanx.head.stranded import Stranded
from phalanx.model.holds import Hold
from phalanx.model.ids import PREFIX_BYTES, GroupId
from phalanx.model.lifecycle import DEAD
from phalanx.model.node_deaths import KILLED, ORDERLY
from phalanx.model.principals import NODE, Principal, Role
from phalanx.model.rights import Verb
from phalanx.model.rows.row import Row
from phalanx.observe import cluster_events
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    Committed,
    LogRead,
    MemberNews,
    MemberUsed,
    MemberUseRead,
    Prepared,
    RunNews,
    StepEnded,
    StepStarted,
)
from phalanx.protocol.cluster_messages import (
    Acked,
    ActorLost,
    ActorPlaced,
    ActorRefused,
    DevicesSeen,
    EnvironmentKnown,
    EventsReported,
    Expelled,
    ForwardedAsk,
    ForwardedReply,
    JobKnown,
    Join,
    Leave,
    MachineSeen,
    NodeDied,
    NodeLogRead,
    NodeNumbers,
    NodeReport,
    ProcessEnded,
    Reported,
    StateReported,
    Via,
    View,
    ViewRow,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.node_messages import (
    ActorFailed,
    ActorLeaving,
    ActorReady,
    ActorUnreferenced,
)
from phalanx.protocol.requests.request import NOTHING, RequestHandlers
from phalanx.protocol.wire_errors import to_wire

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler

_NEVER_SILENT = HealthLimits(period_s=1e9, misses=1)
"""Limits for a node in the head's own process, because such a node never dies alone."""
NOTHING_STORED = StoredState()


class Head:
    """The head of one cluster."""

    def __init__(
        self,
        outbox: Outbox,
        state_store: StateStore,
        shell: HeadShell,
        *,
        stored: StoredState = NOTHING_STORED,
        setup: HeadSetup = DEFAULT_SETUP,
        rights: RightsSetup = ONE_PERSON,
    ) -> None:
        """`state_store` keeps what must survive the process. `stored` is what an earlier head kept
        there. `rights`: the people of the cluster and their rights.
        """
        self.outbox = outbox
        self.state_store = state_store
        self.clock = clock = WatchedClock(shell.clock, shell.boot, stored.clock)
        self._shell = shell
        self.meter = Meter()
        self.event_log = EventLog(state_store, clock)
        self.internal_errors = InternalErrors(clock, shell.report_defect, self.event_log.note)
        self._effects = effects = HeadEffects(
            outbox=outbox,
            state_store=state_store,
            clock=clock,
            meter=self.meter,
            event_log=self.event_log,
            internal_errors=self.internal_errors,
        )
        self._node_recorder = NodeRecorder(self.event_log)
        self._setup = setup
        self._joining = Joining(self, setup.cluster, self._node_recorder, rights.grants is not None)
        self.address = ""
        """The address, as HOST:PORT, at which nodes reach this head."""
        self.nodes = NodeDirectory(self, _NEVER_SILENT if setup.is_alone else setup.limits)
        self.events = EventGathering(outbox, clock)
        self.machines = MachinesInUse(self.nodes, clock)
        self.devices = Devices(self.nodes, outbox, clock, self._node_recorder.cordoned)
        self.draining = Draining(self.nodes, outbox, clock, self._vacate)
        self.unplaceable = Unplaceable(self.event_log, self.nodes.cluster)
        self.drivers = Drivers(outbox, state_store, clock, self)
        self.groups = GroupControl(
            outbox, state_store, self.nodes.cluster, self._request_actor_placing
        )
        self.group_table = self.groups.table
        self.settings = setup.settings
        self.placement = setup.placement.spreading(self.settings.spread_threshold)
        self.actors = ActorControl(
            effects,
            nodes=self.nodes,
            groups=self.groups,
            drivers=self.drivers,
            node_choice=ActorNodeChoice(
                self.nodes.cluster, self.group_table, shell.rng, self.placement
            ),
            unplaceable=self.unplaceable,
            bundle_left=self._bundle_left,
            kept_dead=self.settings.dead_actors,
        )
        self.actor_table = self.actors.table
        self.state = StateQueries(
            outbox, clock, self.nodes, self.drivers, self.actor_table, self.group_table,
            self._gang_rows,
        )  # fmt: skip
        self.logs = LogReading(outbox, clock, self.nodes, shell.read_log)
        self.metrics = HeadMetrics(self.meter, clock, self.nodes, self._look)
        self._values = KeyValues(state_store)
        self.gangs: GangSchedulerInterface = NullGangScheduler()
        self.gangs_if_used: GangScheduler | None = None
        self._grants = rights.grants
        self.rights = self._make_rights(rights)
        actor_requests = ActorRequests(self.actors, clock)
        self.handlers = self._make_handlers(actor_requests)
        self.answering = Answering(
            effects,
            handlers=self.handlers,
            gang_scheduler=lambda: self.gang_scheduler,
            full_store=FullStore(
                state_store,
                actors=actor_requests,
                groups=self.group_table,
                values=self._values,
                gang_scheduler=lambda: self.gang_scheduler,
            ),
            rights=self.rights,
            nodes=self.nodes,
        )
        self._resources_changed = self._must_place_actors = False
        state_store.put_clock(self.clock.anchor())
        self._restore(stored, clock.now())

    def _make_handlers(self, actor_requests: ActorRequests) -> RequestHandlers:
        """Return the handlers of all requests except for those about queues, gangs and jobs."""
        status = Status(
            self._whereabouts,
            nodes=self.nodes,
            actors=self.actor_table,
            groups=self.group_table,
            drivers=self.drivers,
            gang_counts=self._gang_counts,
            internal_errors=self.internal_errors,
            stranded=Stranded(self.clock, self.nodes, self.group_table, self._waiting_gangs),
            lost_nodes=self._node_recorder.lost_lately,
        )
        health = Health(
            self._effects,
            nodes=self.nodes,
            actors=self.actor_table,
            gang_counts=self._gang_counts,
            metrics=self.metrics,
        )
        parts = (
            NodeRequests(self.nodes, self.outbox), self.draining, self.devices,
            actor_requests, GroupRequests(self.groups, self.clock), self.drivers, self._values,
            status, health, self.state, self.metrics, self.logs, self.events, self.event_log,
            self.rights,
        )  # fmt: skip
        entries = (entry for part in parts for entry in part.entries())
        return RequestHandlers("the head", *entries, on_defect=self.internal_errors.in_request)

    def _make_rights(self, setup: RightsSetup) -> Rights:
        self.roles = Roles(self.state_store, is_alone=not setup.is_shared, owner=setup.owner)
        self.tokens = Tokens(self.state_store, self.clock.wall, setup.know_tokens)
        self.node_keys = NodeKeys(self.tokens, self.nodes)
        objects = Objects(
            gangs=lambda: self.gang_scheduler,
            drivers=self.drivers,
            actors=self.actor_table,
            groups=self.group_table,
            is_open=not setup.is_shared,
            max_priority=lambda queue, user: self.gang_scheduler.user_limits.max_priority(
                queue, user, 0 if setup.is_shared else None
            ),
        )
        return Rights(
            objects=objects,
            roles=self.roles,
            tokens=self.tokens,
            audit=setup.audit or RecentAudit(),
            wall=self.clock.wall,
            groups_of=setup.groups_of,
            priority_of=self._priority_of,
        )

    def _priority_of(self, name: str) -> int:
        """Return the priority of a job, or of a driver's job by its name in hex."""
        if "/" not in name:
            return self.drivers.priority_of(name)
        job = self.gang_scheduler.jobs.table.get(name)
        return 0 if job is None else self.gang_scheduler.priorities.of(job.spec)

    @property
    def gang_scheduler(self) -> GangScheduler:
        """The scheduler of queues and gangs; imported when a request first needs it."""
        if self.gangs_if_used is None:
            from phalanx.head.gangs.gang_scheduler import GangScheduler

            self.gangs = self.gangs_if_used = GangScheduler(
                self._effects,
                self._shell,
                nodes=self.nodes,
                groups=self.groups,
                placement=self.placement,
                events=self.events,
                devices=self.devices,
                machines=self.machines,
            )
            if self._grants is not None:
                starter = self.gangs_if_used.jobs.starter
                starter.grants, starter.name_of = self._grants, self._name_of
        return self.gangs_if_used

    def _name_of(self, node_id: str) -> str:
        record = self.nodes.get(node_id)
        return "" if record is None else record.hostname

    def _restore(self, stored: StoredState, now: float) -> None:
        """Restore what an earlier head knew. Each part uses the parts that were restored
        before it.
        """
        self.event_log.restore(stored.events)
        self._node_recorder.restore(stored.nodes)
        self.roles.restore(stored.roles)
        self.tokens.restore(decode_rows(stored.tokens))
        self.nodes.restore(stored.nodes, now)
        self.drivers.restore(stored.driver_count, stored.drivers)
        self.group_table.restore(stored.groups, now)
        self.actor_table.restore(stored.actors, now)
        self._values.restore(stored.values)
        if any(stored.of_gangs.values()):
            self.gang_scheduler.restore(stored.of_gangs)
        self._note_begin(stored)
        self._end_what_dead_nodes_made(now)

    def _note_begin(self, stored: StoredState) -> None:
        jobs, nodes = len(stored.of_gangs.get("batch_jobs", ())), len(stored.nodes)
        why = f"known from before: jobs {jobs}, nodes {nodes}" if jobs or nodes else ""
        self.event_log.note("head-began", name=self._setup.cluster, why=why)

    def _end_what_dead_nodes_made(self, now: float) -> None:
        """Finish the deaths of nodes that an earlier head recorded: that head may have ended before
        it wrote all consequences.
        """
        for dead in self.nodes.all():
            if not self.nodes.is_alive(dead.node_id):
                self.drivers.node_died(dead.prefix)
        for process in self._creators():
            record = self.nodes.of_prefix(process[:PREFIX_BYTES])
            if record is not None and not self.nodes.is_alive(record.node_id):
                self.process_ended(process, False, now)

    def _creators(self) -> list[bytes]:
        """Return the processes that made actors, groups and gangs, each process once."""
        gangs = () if self.gangs_if_used is None else self.gangs_if_used.registry.gangs.values()
        made = (
            *(actor.owner for actor in self.actor_table.all() if actor.state != DEAD),
            *self.group_table.creators(),
            *(gang.creator for gang in gangs),
        )
        return [process for process in dict.fromkeys(made) if process]

    # ---- sending -----------------------------------------------------------------------------

    def is_connected(self, prefix: bytes) -> bool:
        """Whether a node is connected now."""
        return self.outbox.is_connected(prefix)

    # ---- events ------------------------------------------------------------------------------

    def join_alone(self, row: ViewRow) -> None:
        """Add the only node, which is in this process."""
        self.outbox.connect(row.node_id, row.prefix)
        self.nodes.join(self.clock.now(), record_of(row, "", 0))

    def on_lost(self, prefix: bytes) -> None:
        """Take note that a node's connection has ended. The node may come back."""
        self.outbox.disconnect(prefix)
        self.events.node_gone(prefix)
        self.logs.node_gone(prefix)
        record = self.nodes.of_prefix(prefix)
        node_id = "" if record is None else record.node_id
        self.nodes.disconnected(node_id, self.clock.now())
        if record is not None:
            self._node_recorder.away(record)
        self.gangs.node_away(node_id)

    def knocked(self, prefix: bytes, version: int, host: str) -> bool:
        """Handle a knock of a node with another version of the protocol. Returns whether the head
        has given the node up. See Joining.
        """
        return self._joining.knocked(prefix, version, host, self.clock.now())

    def on_tick(self, now: float) -> None:
        """Do what is due at this time."""
        if step_s := self.clock.take_step():
            self._clock_stepped(step_s)
        watching = (self.nodes, self.draining, self.events, self.state, self.logs, self.event_log)
        for part in (*watching, self.actor_table, self.actors, self.group_table, self.gangs):
            with self.internal_errors.kept_apart("tick"):
                part.tick(now)
        is_due, self._resources_changed = self._resources_changed, False
        if is_due:
            self.group_table.resources_changed(now)
        if is_due or self._must_place_actors or self.actors.is_overdue():
            self._must_place_actors = False
            self.actors.place_waiting()

    def _clock_stepped(self, step_s: float) -> None:
        """Move noted moments along after the machine's clock was set, or the machine slept.

        Durations stay the same. Moments that people wrote are not moved.
        """
        self.state_store.put_clock(self.clock.anchor())
        self.event_log.note("clock-stepped", why=step_text(step_s))
        noted = (self._node_recorder, self.drivers, self.internal_errors)
        for part in (self.draining, self.actors, self.gangs, *noted):
            with self.internal_errors.kept_apart("clock"):
                part.clock_stepped(step_s)

    def on_round(self, now: float) -> float:
        """Run a cycle if one is due. Call this after all messages that had come are handled.
        Returns when to call again if no message comes before.
        """
        return self.gangs.round(now)

    def on_message(self, prefix: bytes, message: Any, key: str = "") -> None:
        """Handle a message of a node. An error affects that message alone: the node continues, and
        does not repeat the message. `key`: the node's own key, if it has one.
        """
        refusal = self.node_keys.refusal(key, prefix, message)
        if refusal is not None:
            self._refuse(prefix, message, refusal)
            return
        try:
            self._take_in(prefix, message)
        except Exception as error:
            self.internal_errors.add("message", error, type(message).__name__)

    def _refuse(self, prefix: bytes, message: Any, refusal: NotAllowedError) -> None:
        """Answer a node that has said more than its key allows."""
        if isinstance(message, Join):
            self.outbox.send_to_stranger(prefix, Expelled(str(refusal), is_stale=False))
        elif isinstance(message, ForwardedAsk) and message.token:
            reply = ForwardedReply(message.token, NOTHING, to_wire(refusal))
            self.outbox.reply(prefix, reply)
        asking = Asking(Principal(NODE, prefix.hex()), Role.USER)
        what, origin = type(message).__name__, self.nodes.display_name(prefix)
        self.rights.note(asking, origin, Verb.JOIN, what, str(refusal), DENIED)

    def _take_in(self, prefix: bytes, message: Any) -> None:  # noqa: PLR0912, PLR0915
        # Messages that every job causes stand first, because the cases are tried in order.
        now = self.clock.now()
        match message:
            case Join():
                self._joining.join(prefix, message, now)
            case NodeReport():
                self._report(prefix, message, now)
            case _ if not self.outbox.is_connected(prefix):
                # the node was given up: messages that it sent before it learned that are void
                return
            case ForwardedAsk():
                self.answering.answer(prefix, message)
            case Reported():
                for inner in decode_body(message.body):
                    self.on_message(prefix, inner)
                self.state_store.when_written(
                    lambda: self.outbox.send(prefix, Acked(message.token))
                )
            case MemberNews() | MemberUsed() | RunNews() | StepEnded():
                self.gangs.member_news(self._node_id(prefix), message)
            case Prepared():
                node = self._node_id(prefix)
                attempts = self.group_table.attempts
                attempts.prepared(node, message.group, message.attempt, message.ok, now)
                self.gangs.prepared(node, message, now)
            case Committed():
                node = self._node_id(prefix)
                attempts = self.group_table.attempts
                attempts.committed(node, message.group, message.attempt, message.ok, now)
                self.gangs.committed(node, message, now)
            case BundlesGone():
                node = self._node_id(prefix)
                self.group_table.returned(node, message.group, message.attempt)
                self.gangs.returned(node, message, now)
            case Via():
                for inner in decode_body(message.body):
                    self._from_process(message.process, inner)
            case MachineSeen():
                self.machines.seen(self._node_id(prefix), message)
            case DevicesSeen():
                self.devices.seen(self._node_id(prefix), message)
            case Leave():
                node, death = self._node_id(prefix), KILLED if message.is_failure else ORDERLY
                self.nodes.leave(node, message.reason, death)
            case ActorPlaced():
                self.actors.placed(prefix, message)
            case ActorLost():
                self.actors.lost(message)
            case ActorRefused():
                self.actors.refused(prefix, message)
            case ProcessEnded():
                self.process_ended(message.process, message.is_driver, now)
            case JobKnown():
                self.drivers.known(message)
            case EnvironmentKnown():
                self.drivers.environments[message.key] = message
            case StateReported() | EventsReported() | NodeLogRead() | NodeNumbers():
                self._answered(prefix, message)
            case LogRead() | MemberUseRead() | StepStarted():
                self.gangs.node_answered(message)

    def _answered(
        self, prefix: bytes, message: StateReported | EventsReported | NodeLogRead | NodeNumbers
    ) -> None:
        """Handle a node's answer, or numbers that all nodes send regularly."""
        match message:
            case StateReported():
                self.state.reported(prefix, message)
            case EventsReported():
                self.events.reported(prefix, message)
            case NodeLogRead():
                self.logs.answered(prefix, message)
            case NodeNumbers():
                self.metrics.reported(self._node_id(prefix), message)

    def _look(self, meter: Meter) -> None:
        """Add to the meter the numbers that are not counted as they change."""
        meter.clear("phalanx_placement_groups")
        for state, count in self.group_table.counts().items():
            meter.set("phalanx_placement_groups", count, state.lower())
        self._shell.look(meter)

    def _gang_counts(self) -> dict[str, int]:
        return {} if self.gangs_if_used is None else self.gangs_if_used.counts()

    def _waiting_gangs(self) -> Iterable[Gang]:
        return () if self.gangs_if_used is None else self.gangs_if_used.registry.waiting.values()

    def _gang_rows(self, kind: str) -> Sequence[Row]:
        """Return gangs or jobs for display."""
        if self.gangs_if_used is None:
            return []
        scheduler = self.gangs_if_used
        return (scheduler.gang_requests if kind == "gangs" else scheduler.job_requests).rows()

    def _whereabouts(self) -> tuple[str, str, list[str]]:
        """Return the addresses of the head and of its store, and sentences about the head's
        troubles.
        """
        troubles = []
        if self.state_store.shortage:
            troubles.append(f"no new work is taken: {self.state_store.shortage}")
        troubles += self._joining.troubles(self.clock.now())
        return self.address, self.state_store.address, troubles

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

    # ---- nodes -------------------------------------------------------------------------------

    def _report(self, prefix: bytes, message: NodeReport, now: float) -> None:
        if self._joining.report(prefix, message, now):
            self._resources_changed = True

    def _request_actor_placing(self) -> None:
        """Place waiting actors at the next tick. They may wait for bundles that were created just
        now, which earlier reports of nodes do not show.
        """
        self._must_place_actors = True

    def _vacate(self, node_id: str) -> None:
        self.gangs.vacate(node_id)

    def _bundle_left(self, group: GroupId, index: int) -> None:
        self.gangs.bundle_left(group, index)

    def node_changed(self, record: NodeRecord) -> None:
        """Store and publish a node that joined, drains, or has different totals (effect of the
        directory).
        """
        self.state_store.put_node(record)
        self._node_recorder.changed(record)
        if not self._setup.is_alone:
            self.outbox.broadcast(View([self.nodes.row(record.node_id)]))
        self._resources_changed = True
        self.gangs.node_changed(record)

    def node_held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """Record that a node drains for one more reason or one reason less (an effect of the
        directory).
        """
        self._node_recorder.held(record, kind, hold)

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Give up a dead node and all that ran there (an effect of the directory)."""
        now = self.clock.now()
        self.state_store.put_node(record)
        self._node_recorder.lost(record, reason)
        died = NodeDied(record.prefix, record.node_id, reason, record.death)
        self.outbox.broadcast(died, but=record.prefix)
        self.outbox.send(record.prefix, Expelled(reason, is_stale=True))
        self.outbox.disconnect(record.prefix)
        self.events.node_gone(record.prefix)
        self.state.node_dead(record.prefix)
        self.devices.node_gone(record.node_id)
        self.machines.node_gone(record.node_id)
        self.metrics.node_dead(record.node_id)
        self.events.record(
            cluster_events.NodeDied(at=self.clock.wall(), node=record.prefix.hex(), reason=reason)
        )
        apart = self.internal_errors.kept_apart
        with apart("message", "actors of a dead node"):
            self.actors.node_died(record, reason)
        with apart("message", "drivers of a dead node"):
            self.drivers.node_died(record.prefix)
        with apart("message", "what workers of a dead node made"):
            for process in self._creators():
                if process[:PREFIX_BYTES] == record.prefix:
                    self.process_ended(process, False, now)
        with apart("message", "groups on a dead node"):
            self.group_table.node_gone(record.node_id, now)
        with apart("message", "gangs on a dead node"):
            self.gangs.node_dead(record, now)

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """End what a driver or worker owned whose process is gone."""
        apart = self.internal_errors.kept_apart
        with apart("message", "actors of a process that ended"):
            self.actor_table.process_gone(process)
        with apart("message", "groups of a process that ended"):
            self.group_table.creator_gone(process, now)
        with apart("message", "gangs of a process that ended"):
            self.gangs.creator_gone(process, now)
        if is_driver:
            self.drivers.driver_gone(process)

    def detached_actors(self, job: bytes) -> list[ActorRecord]:
        """Return the living actors of a job that outlive its driver (an effect of drivers)."""
        actors = self.actor_table.all()
        return [a for a in actors if a.job == job and a.detached and a.state != DEAD]
