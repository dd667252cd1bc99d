"""The head: composes the machines of nodes, actors, placement groups, gangs and drivers.

The class Head runs in a process of its own or, on a cluster of one machine, in the node's process.
The head communicates with nodes only by messages, and never unpickles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.node_choice import ActorNodeChoice
from phalanx.head.actors.requests import ActorRequests
from phalanx.head.actors.table import ActorRecord
from phalanx.head.answering import Answering
from phalanx.head.client_drivers import ClientDrivers, OwnCluster
from phalanx.head.clock import WatchedClock, step_text
from phalanx.head.deaths import Deaths
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
from phalanx.head.node_messages import NodeMessages
from phalanx.head.node_requests import NodeRequests
from phalanx.head.node_use import NodeUseReading
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.packages import Packages
from phalanx.head.rights.audit import RecentAudit
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
from phalanx.model.ids import GroupId
from phalanx.model.jobs.states import RUNNING
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import MINE, SHARED, SYSTEM
from phalanx.model.rows.row import Row
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol.cluster_messages import (
    View,
    ViewRow,
)
from phalanx.protocol.requests.request import RequestHandlers

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler

_NEVER_SILENT = HealthLimits(period_s=1e9, misses=1)
"""Limits for a node in the head's own process. Silence never counts against such a node, because it
never dies alone.
"""
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
        """`state_store`: keeps everything that must survive the process. `stored`: the rows that an
        earlier head kept there. `rights`: the cluster's people and their rights.
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
        self.joining = Joining(self, setup.cluster, self._node_recorder, rights.grants is not None)
        self.address = ""
        """The address, as HOST:PORT, under which nodes reach this head."""
        self.nodes = NodeDirectory(self, _NEVER_SILENT if setup.is_alone else setup.limits)
        self.events = EventGathering(outbox, clock)
        self.devices = Devices(self.nodes, outbox, clock, self._node_recorder.cordoned)
        self.machines = MachinesInUse(self.nodes, clock, self.devices)
        self.draining = Draining(self.nodes, outbox, clock, self._vacate)
        self.unplaceable = Unplaceable(self.event_log, self.nodes.cluster)
        self.drivers = Drivers(outbox, state_store, clock, self)
        self.groups = GroupControl(
            outbox, state_store, self.nodes.cluster, self._request_actor_placing
        )
        self.group_table = self.groups.table
        self.settings = setup.settings
        self.standbys = setup.standbys
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
        self.packages = Packages(shell.packages, outbox, self._kept_packages)
        self.logs = LogReading(outbox, clock, self.nodes, shell.read_log)
        self.node_use = NodeUseReading(outbox, clock, self.nodes, self.actor_table)
        self.metrics = HeadMetrics(self.meter, clock, self.nodes, self._look)
        self._values = KeyValues(state_store)
        self.gangs: GangSchedulerInterface = NullGangScheduler()
        self.gangs_if_used: GangScheduler | None = None
        self._grants = rights.grants
        self._mode = SYSTEM if rights.grants else SHARED if rights.is_shared else MINE
        self.rights = self._make_rights(rights)
        self._client_drivers = ClientDrivers(
            drivers=self.drivers,
            nodes=self.nodes,
            tokens=self.tokens,
            owner_of=self._owner_of,
            admit=rights.admit,
            own_cluster=None if self._grants is None else self._own_cluster,
        )
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
        self.resources_changed = self._must_place_actors = False
        self.deaths = Deaths(self)
        self._messages = NodeMessages(self, self.joining)
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
            job_states=self._job_states,
            internal_errors=self.internal_errors,
            stranded=Stranded(self.clock, self.nodes, self.group_table, self._waiting_gangs),
            lost_nodes=self._node_recorder.lost_lately,
            standbys=self.standbys,
            mode=self._mode,
        )
        health = Health(
            self._effects,
            nodes=self.nodes,
            actors=self.actor_table,
            gang_counts=self._gang_counts,
            metrics=self.metrics,
        )
        parts = (
            NodeRequests(self.nodes, self.outbox, self.clock), self.draining, self.devices,
            actor_requests, GroupRequests(self.groups, self.clock), self.drivers, self._values,
            status, health, self.state, self.metrics, self.logs, self.node_use, self.machines,
            self.events, self.event_log, self.rights, self.packages, self._client_drivers,
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
        """Return the priority of a job or, for a driver, of the driver's job. A driver's name is
        the id of its job in hex.
        """
        if "/" not in name:
            return self.drivers.priority_of(name)
        job = self.gang_scheduler.jobs.table.get(name)
        return 0 if job is None else self.gang_scheduler.priorities.of(job.spec)

    def _owner_of(self, name: str) -> str | None:
        job = self.gang_scheduler.jobs.table.get(name)
        return None if job is None else job.spec.user

    def _own_cluster(self, name: str) -> OwnCluster | None:
        jobs = self.gang_scheduler.jobs
        job, gang = jobs.table.get(name), jobs.gang_of(name)
        if job is None or gang is None or job.state != RUNNING or not gang.ports:
            return None
        host = self.nodes.address_of(gang.members[0].node)
        secret = jobs.starter.secret(job, gang)
        return OwnCluster(gang.gang_id, host, gang.ports[0], secret)

    @property
    def gang_scheduler(self) -> GangScheduler:
        """The scheduler of queues and gangs. Its code is imported when a request first needs it."""
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
            self.gangs_if_used.job_requests.missing = self.packages.missing
            if self._grants is not None:
                starter = self.gangs_if_used.jobs.starter
                starter.grants, starter.name_of = self._grants, self._name_of
        return self.gangs_if_used

    def _kept_packages(self) -> set[str]:
        """Return the packages of jobs and drivers that are not over."""
        kept = self.drivers.packages()
        if self.gangs_if_used is not None:
            kept |= self.gangs_if_used.job_requests.packages()
        return kept

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
        self.deaths.finish_earlier(now)

    def _note_begin(self, stored: StoredState) -> None:
        jobs, nodes = len(stored.of_gangs.get("batch_jobs", ())), len(stored.nodes)
        why = f"known from before: jobs {jobs}, nodes {nodes}" if jobs or nodes else ""
        self.event_log.note("head-began", name=self._setup.cluster, why=why)

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
        """Note that a node's connection has ended. The node may come back."""
        self.outbox.disconnect(prefix)
        self.events.node_gone(prefix)
        self.logs.node_gone(prefix)
        self.node_use.node_gone(prefix)
        record = self.nodes.of_prefix(prefix)
        node_id = "" if record is None else record.node_id
        self.nodes.disconnected(node_id, self.clock.now())
        if record is not None:
            self._node_recorder.away(record)
        self.gangs.node_away(node_id)

    def knocked(self, prefix: bytes, version: int, host: str) -> bool:
        """Handle a node that asks to join with another version of the protocol. Returns whether the
        head has given the node up (see Joining).
        """
        return self.joining.knocked(prefix, version, host, self.clock.now())

    def on_tick(self, now: float) -> None:
        """Do everything that is due at this time."""
        if step_s := self.clock.take_step():
            self._clock_stepped(step_s)
        watching = (
            self.nodes, self.draining, self.events, self.state, self.logs, self.node_use,
            self.event_log, self.tokens,
        )  # fmt: skip
        for part in (*watching, self.actor_table, self.actors, self.group_table, self.gangs):
            with self.internal_errors.kept_apart("tick"):
                part.tick(now)
        is_due, self.resources_changed = self.resources_changed, False
        if is_due:
            self.group_table.resources_changed(now)
        if is_due or self._must_place_actors or self.actors.is_overdue():
            self._must_place_actors = False
            self.actors.place_waiting()

    def _clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the machine's clock was set or the machine slept, so that
        durations stay the same. Times that people wrote are not shifted.
        """
        self.state_store.put_clock(self.clock.anchor())
        self.event_log.note("clock-stepped", why=step_text(step_s))
        noted = (self._node_recorder, self.drivers, self.internal_errors)
        for part in (self.draining, self.actors, self.gangs, *noted):
            with self.internal_errors.kept_apart("clock"):
                part.clock_stepped(step_s)

    def on_round(self, now: float) -> float:
        """Run a cycle if one is due. Call this after all received messages have been handled.
        Returns when to call again if no message comes earlier.
        """
        return self.gangs.round(now)

    def on_message(self, prefix: bytes, message: Any, key: str = "") -> None:
        """Handle a message of a node. An error affects that message alone: the node continues, and
        does not repeat the message. `key`: the node's own key, if it has one.
        """
        refusal = self.node_keys.refusal(key, prefix, message)
        try:
            if refusal is not None:
                self._messages.refuse(prefix, message, refusal)
            else:
                self._messages.take_in(prefix, message)
        except Exception as error:
            self.internal_errors.add("message", error, type(message).__name__)

    def _look(self, meter: Meter) -> None:
        """Set the numbers in the meter that are computed on request."""
        meter.clear("phalanx_placement_groups")
        for state, count in self.group_table.counts().items():
            meter.set("phalanx_placement_groups", count, state.lower())
        self._shell.look(meter)

    def _gang_counts(self) -> dict[str, int]:
        return {} if self.gangs_if_used is None else self.gangs_if_used.counts()

    def _job_states(self) -> dict[str, int]:
        return {} if self.gangs_if_used is None else self.gangs_if_used.job_states()

    def _waiting_gangs(self) -> Iterable[Gang]:
        return () if self.gangs_if_used is None else self.gangs_if_used.registry.waiting.values()

    def _gang_rows(self, kind: str) -> Sequence[Row]:
        """Return gangs or jobs for display."""
        if self.gangs_if_used is None:
            return []
        scheduler = self.gangs_if_used
        listing = scheduler.job_requests.listing
        return (scheduler.gang_requests if kind == "gangs" else listing).rows()

    def _whereabouts(self) -> tuple[str, str, list[str]]:
        """Return the addresses of the head and of its store, and a sentence for each problem of the
        head.
        """
        troubles = []
        if self.state_store.shortage:
            troubles.append(f"no new work is taken: {self.state_store.shortage}")
        troubles += self.joining.troubles(self.clock.now())
        return self.address, self.state_store.address, troubles

    # ---- nodes -------------------------------------------------------------------------------

    def _request_actor_placing(self) -> None:
        """Ask for a placing of waiting actors at the next tick. The actors may wait for bundles
        that were created just now, and the latest reports of nodes do not show these yet.
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
        self.resources_changed = True
        self.gangs.node_changed(record)

    def node_held(self, record: NodeRecord, kind: str, hold: Hold | None) -> None:
        """Record that a node has one more hold or, if `hold` is None, one less (an effect of the
        directory).
        """
        self._node_recorder.held(record, kind, hold)

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Give up a dead node and everything that ran there (an effect of the directory)."""
        record.ended = self.clock.wall()
        self.state_store.put_node(record)
        self._node_recorder.lost(record, reason)
        self.deaths.node_dead(record, reason)

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """End everything that belonged to a process that has ended (an effect of drivers)."""
        self.deaths.process_ended(process, is_driver, now)

    def detached_actors(self, job: bytes) -> list[ActorRecord]:
        """Return the living actors of a job that outlive its driver (an effect of drivers)."""
        actors = self.actor_table.all()
        return [a for a in actors if a.job == job and a.detached and a.state != DEAD]
