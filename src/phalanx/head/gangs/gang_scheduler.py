"""Composes the head's parts for queues and gangs, and passes reports of nodes and members on to
them.

Nodes see a gang as a placement group with one bundle for each member. `cycles` decides where the
members go, and `plan_applier` and `binder` carry the decisions out.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.accounting.requests import AccountingRequests
from phalanx.head.devices import Devices
from phalanx.head.effects import HeadEffects
from phalanx.head.event_gathering import EventGathering
from phalanx.head.events.recorders import Recorders
from phalanx.head.gangs.answering import entries
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.bundle_answers import BundleAnswers
from phalanx.head.gangs.bundle_orders import BundleOrders
from phalanx.head.gangs.cycle_log import CycleLog
from phalanx.head.gangs.cycle_times import CycleTimes
from phalanx.head.gangs.cycles import Cycles, Pace
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_events import Recorder
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.gang_starts import GangStarts
from phalanx.head.gangs.kept_promises import KeptPromises
from phalanx.head.gangs.live_cluster import LiveCluster
from phalanx.head.gangs.member_lifecycle import MemberLifecycle
from phalanx.head.gangs.member_states import HELD
from phalanx.head.gangs.minimums import has_minimum
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.gangs.news import News
from phalanx.head.gangs.node_events import NodeEvents
from phalanx.head.gangs.offered_ports import OfferedPorts
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.gangs.quarantine import Quarantine
from phalanx.head.gangs.refusals import Refusals
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.head.gangs.requests import GangRequests
from phalanx.head.gangs.restoring import restore
from phalanx.head.gangs.room_claims import RoomClaims
from phalanx.head.gangs.rules import Rules
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.head.gangs.snapshot_source import SnapshotSource
from phalanx.head.groups.control import GroupControl
from phalanx.head.jobs.events import Commanded
from phalanx.head.jobs.idle_gpus import IdleGpus, holdings
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.logs import Logs
from phalanx.head.jobs.past_runs import PastJobs
from phalanx.head.jobs.priorities import Priorities
from phalanx.head.jobs.requests import JobRequests
from phalanx.head.jobs.rows import state_of
from phalanx.head.jobs.signals import Signals
from phalanx.head.jobs.steps import Steps
from phalanx.head.machine_use import MachinesInUse
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.queues.user_limits import UserLimitsControl
from phalanx.head.reservations.control import ReservationControl
from phalanx.head.setup import HeadShell
from phalanx.head.shares.control import SharesControl
from phalanx.head.shares.usage_ledger import UsageLedger
from phalanx.head.time_series import TimeSeries
from phalanx.model.ids import JobId
from phalanx.model.jobs.gang_view import EncodedView
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.states import TERMINATE_JOB
from phalanx.protocol.bundle_messages import LogRead, MemberUseRead, StepStarted
from phalanx.protocol.cluster_messages import QueueWeights
from phalanx.protocol.requests.request import RequestHandlers
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.planner import Planner, lent
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx.scheduler.plugin_parts.users import BOOKS
from phalanx.scheduler.plugins.reservation import Reservation

T = TypeVar("T")


class GangScheduler:
    """All queues, gangs and jobs of the cluster, behind the methods of GangSchedulerInterface."""

    def __init__(  # noqa: PLR0915  (where the parts are composed: a statement each)
        self,
        effects: HeadEffects,
        shell: HeadShell,
        *,
        nodes: NodeDirectory,
        groups: GroupControl,
        placement: PlacementPolicy,
        events: EventGathering,
        devices: Devices,
        machines: MachinesInUse,
    ) -> None:
        outbox, state_store, clock = effects.outbox, effects.state_store, effects.clock
        meter, event_log = effects.meter, effects.event_log
        internal_errors = effects.internal_errors
        self._outbox = outbox
        self.clock = clock
        self.nodes = nodes
        self.internal_errors = internal_errors
        self._weights: dict[str, float] = {}
        """The weight of each queue, as last sent to nodes."""
        # The work that waits and runs, and the cluster as the scheduler sees it.
        self.registry = registry = GangRegistry(state_store.keep, self._busy_changed)
        self.queues = Queues(
            state_store, self._queues_changed, registry.counts, registry.amounts, clock.wall
        )
        self.domains = Domains(state_store, self._request_cycle)
        self.outside_work = OutsideWork(nodes)
        self.calendar = calendar = ReservationControl(
            state_store, clock, nodes, self._request_cycle, self._truth
        )
        self._live_cluster = live = LiveCluster(
            nodes, self.queues, self.domains, registry, self.outside_work, calendar
        )
        seen, member_of = registry.window.seen, registry.member_of
        # The rules, and the usage that the rules count: both go into the decisions of a cycle.
        self.quarantine = Quarantine(
            lambda error, gang: internal_errors.add("gang", error, gang.name)
        )
        self.rules = rules = Rules(
            state_store,
            placement,
            internal_errors,
            self._truth,
            self._rules_changed,
            meter,
            event_log,
        )
        self.books = books = UsageLedger(state_store.keep, clock.wall, rules.current(), live.shape)
        self.shares = SharesControl(
            clock, books, lambda: [one.name for one in self.queues.table.all()], self._request_cycle
        )
        # Deciding: cycles read the cache, and a failed gang or plugin is left out.
        shells: dict[str, Any] = {BOOKS: books}
        self.cache = SchedulerCache(
            lambda has_paths: rules.current(has_paths=has_paths),
            live, seen, member_of, self.quarantine, shells,
            on_plugin_left_out=lambda name, error: internal_errors.add("plugin", error, name),
        )  # fmt: skip
        self.snapshots = SnapshotSource(clock, self.cache, nodes, self.outside_work, books)
        self.cycle_log = CycleLog(clock, member_of)
        self.cycles = Cycles(
            clock,
            registry,
            self.cache,
            live,
            self,
            Pace(),
            CycleTimes(meter, clock, self.cycle_log),
        )
        # Events that people read.
        self._recorder = Recorder(events.record_gang, clock.wall, live.min_member)
        self.recorders = Recorders(event_log, self.queues, calendar, nodes.host_of, self._job_of)
        self._starts = starts = GangStarts(meter, clock)
        lifecycle = MemberLifecycle(
            registry, self.cache, self.outside_work, books, self._recorder, self.cycles, starts,
            self.recorders.of_gangs,
        )  # fmt: skip
        # Carrying out: a plan becomes bundles on nodes, prepared and committed in two phases.
        ports = OfferedPorts(nodes)
        self.rendezvous = Rendezvous(
            shell.rng, nodes.address_of, ports, placement.selector.min_dynamic_port
        )
        self._refusals = Refusals(clock, self.cache.gang_amended)
        self._orders = BundleOrders(
            outbox, state_store, nodes.cluster, groups, self.rendezvous, self._remove
        )
        self.reservations = GangBinder(
            registry,
            lifecycle,
            self._orders,
            self,
            clock,
            lambda gang: has_minimum(gang, live),
            nodes.host_of,
        )
        self.applier = PlanApplier(
            registry, self.reservations, live, self, self.cache.gang_amended, self._failed, meter
        )
        self._claims = RoomClaims(
            outbox, clock, nodes, self.outside_work, registry.member_of, self.snapshots.truth
        )
        # Jobs, which are gangs of commands. The scheduler learns a gang's terms from its job.
        self.priorities = Priorities(state_store)
        self.jobs = JobGangs(
            effects,
            shell.ledger,
            rng=shell.rng,
            nodes=nodes,
            registry=registry,
            reservations=self.reservations,
            gang_news=self,
            priority_of=self.priorities.of,
        )
        live.record_of = self.jobs.table.get
        self.jobs.reserved_until, calendar.jobs = calendar.ends, self.jobs
        skips_tried = placement.policy == "selector" and placement.selector.skip_tried
        if skips_tried:
            live.tried = self._refusals.of
        self.logs = Logs(outbox, nodes, self.jobs)
        # Explanations and promises: the expected starts of waiting work, computed from past run
        # times.
        self._past = past = PastJobs(self.jobs.table.get)
        self.promises = KeptPromises(Planner(past.learnt), state_store.keep)
        shells |= lent(self.promises.planner)
        self.explanations = Explanations(
            registry,
            self.snapshots,
            may_evict=self.cycles.may_evict,
            show_next=self.cycles.show_next,
            quarantine=self.quarantine,
            learnt=past.learnt,
            clock=clock,
            closed_devices=nodes.closed_devices,
            on_displayed=starts.on_displayed,
            changes=lambda: self.cycles.changes,
        )
        self.job_requests = JobRequests(
            effects,
            shell.prober,
            nodes=nodes,
            queues=self.queues,
            jobs=self.jobs,
            priorities=self.priorities,
            domains=self.domains,
            explanations=self.explanations,
            past=past,
            calendar=calendar,
        )
        # Requests of people, their views of the cluster, and their limits.
        self.idle = IdleGpus(
            lambda: holdings(registry.gangs.values()),
            self.queues.idle_rule,
            devices.busy,
            event_log,
            self._end_idle,
        )
        listing = self.job_requests.listing
        self.steps = Steps(outbox, nodes, self.jobs, listing, shell.rng)
        self.gang_requests = GangRequests(
            clock, nodes, registry, self.queues, self.domains, self.reservations,
            self._request_cycle,
        )  # fmt: skip
        self.news = News(clock, nodes, registry, listing, self.gang_requests)
        self.numbers = TimeSeries(
            clock, nodes, self._job_states, self.news.queue_rows, machines.used
        )
        self.job_requests.follow, self.job_requests.forgotten = (
            self._job_changed,
            self._job_forgotten,
        )
        self.user_limits = limits = UserLimitsControl(clock, self.queues, self._request_cycle)
        self.job_requests.longest, self.job_requests.submitted = limits.longest, limits.submitted
        registry.follow = self.news.gang_changed
        signals = Signals(outbox, nodes, self.jobs, listing)
        # The head's reports go straight to the parts that handle them.
        answers = BundleAnswers(
            registry, self.reservations, self.rendezvous, self._refusals if skips_tried else None
        )
        self.prepared, self.committed = answers.prepared, answers.committed
        self.returned, self.bundle_left = answers.returned, answers.bundle_left
        self.inventory, self.succeeded = self.reservations.inventory, self.reservations.succeeded
        self.creator_gone, self.vacate = self.reservations.creator_gone, self.applier.vacate
        of_nodes = NodeEvents(
            outbox, registry=registry, queues=self.queues, cache=self.cache, calendar=calendar,
            outside_work=self.outside_work, ports=ports, reservations=self.reservations,
            jobs=self.jobs, request_cycle=self._request_cycle,
        )  # fmt: skip
        nodes.has_commands = of_nodes.has_commands
        self.node_changed, self.node_joined = of_nodes.node_changed, of_nodes.node_joined
        self.node_reported, self.node_dead = of_nodes.node_reported, of_nodes.node_dead
        self.node_away, self.member_news = self.jobs.node_away, self.jobs.reports.handle
        self.handlers = RequestHandlers(
            "the head",
            *entries(
                self, signals, AccountingRequests(shell.ledger, self.jobs.steps.running_steps)
            ),
            on_defect=internal_errors.in_request,
        )

    # ---- changes of jobs and gangs -----------------------------------------------------------

    def _job_changed(self, job: JobRecord) -> None:
        self.news.job_changed(job)
        self.user_limits.job_changed(job)
        self.recorders.of_jobs.changed(job)

    def _job_forgotten(self, job: JobRecord) -> None:
        self.news.job_changed(job)
        self.user_limits.job_forgotten(job)
        self.recorders.of_jobs.forgotten(job)

    def _failed(self, gang: Gang, error: Exception) -> None:
        self.quarantine.add(gang, error)
        self.cache.gang_changed(gang)

    def counts(self) -> dict[str, int]:
        """Return how many gangs hold places, how many wait, and how many are in quarantine. Gangs
        of jobs are included.
        """
        gangs = [gang for gang in self.registry.gangs.values() if not gang.is_over]
        return {
            "running": sum(gang.count(HELD) > 0 for gang in gangs),
            "waiting": sum(gang.waits for gang in gangs),
            "set aside": sum(gang in self.quarantine for gang in gangs),
        }

    def job_states(self) -> dict[str, int]:
        """Return the number of jobs that have not ended, by state."""
        all_jobs = self.jobs.table.all()
        return dict(
            Counter(
                state_of(job)
                for job in all_jobs
                if job.finished is None and job.spec.element is None
            )
        )

    def _truth(self) -> Snapshot:
        return self.snapshots.truth()

    # ---- members and their nodes -------------------------------------------------------------

    def member_views(self, gang: Gang, members: list[int]) -> dict[int, EncodedView]:
        """Return the current view of the gang for each of these members. All of the members must
        have their places.
        """
        return self.rendezvous.views(gang, members)

    def _job_of(self, uid: str) -> JobRecord | None:
        return self.jobs.table.get(uid)

    # ---- events that the head reports ----------------------------------------------------------

    def node_answered(self, message: LogRead | MemberUseRead | StepStarted) -> None:
        """Pass on a node's answer: the start of a step to `Steps`, any other answer to the clients
        that asked.
        """
        if isinstance(message, StepStarted):
            self.steps.started(message)
        else:
            self.logs.answered(message)

    def tick(self, now: float) -> None:
        """Repeat unanswered requests, and let each part do the work that is due."""
        with self.internal_errors.kept_apart("gang"):
            self.reservations.tick(now)
        if self._refusals.expire():
            self._request_cycle()
        with self.internal_errors.kept_apart("reservation"):
            self.calendar.tick()
        self.job_requests.tick()
        with self.internal_errors.kept_apart("job"):
            self.jobs.steps.tick()
        with self.internal_errors.kept_apart("job"):
            self.idle.tick(now)
        with self.internal_errors.kept_apart("numbers"):
            self.numbers.tick(now)

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times in all parts after the clock was stepped by `step_s` seconds."""
        parts = (
            self.books, self.calendar, self.registry, self.jobs, self.job_requests.crons,
            self.promises, self._starts, self._past.learnt.track_record, self.numbers,
        )  # fmt: skip
        for part in parts:
            with self.internal_errors.kept_apart("clock"):
                part.clock_stepped(step_s)
        self.cache.clock_stepped()
        self._request_cycle()

    def _job_states(self) -> Iterator[str]:
        return (job.state for job in self.jobs.table.all() if job.spec.element is None)

    def _end_idle(self, job: JobId, why: str) -> None:
        with contextlib.suppress(JobCommandError):  # the job is ended already
            self.jobs.handle(Commanded(job=job, action=TERMINATE_JOB, reason=why))

    def round(self, now: float) -> float:
        """Run a cycle if one is due. Returns when to call again."""
        self.cycles.round(now)
        return self.cycles.wake_at

    def _remove(self, gang: Gang) -> None:
        self.reservations.remove(gang)
        self.quarantine.forget(gang)

    # ---- places of members (Listener) ---------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """Start the commands of a job's members. Nothing is done for members that are tasks or
        actors: their owners start them.
        """
        if gang.job:
            self.jobs.arrived(gang, members)

    def lost(self, gang: Gang, members: list[int]) -> None:
        """Report lost members to their job. Nothing is done for members that are tasks or actors:
        they wait again.
        """
        if gang.job:
            self.jobs.lost(gang, members)

    def rests(self, gang: Gang) -> None:
        """Make cycles skip the gang while it rests, and request a cycle for the time when its rest
        ends.
        """
        self.cache.gang_rests(gang)
        self._request_cycle(gang.backoff_s)

    def over(self, gang: Gang) -> None:
        """Forget a gang that is over."""
        self.cache.gang_changed(gang)
        self.rendezvous.free_ports(gang)
        self._refusals.forget(gang)
        self._orders.over(gang)
        self._live_cluster.forget(gang)
        if gang.job:
            self.jobs.over(gang)
        self.queues.left(gang.queue)
        self._request_cycle()

    # ---- effects of cycles (CycleEffects, PlanEffects) -------------------------------------

    def apply(self, plan: Plan) -> None:
        """Store changed promises, and carry out the plan."""
        self.promises.look()
        self.applier.apply(plan)

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """Record an eviction as an event."""
        self._recorder.evicted(gang, members, action)
        self.recorders.evicted(gang, members, action, claimant)

    def placing(self, gang: Gang, nodes: Collection[str]) -> bool:
        """Choose ports for the gang on these nodes. Returns False if no ports are free."""
        return self.rendezvous.choose_ports(gang, nodes)

    def stranded(self, gang: Gang) -> None:
        """Report a job's gang as stranded, once."""
        if gang.job and not gang.is_stranded:
            gang.is_stranded = True
            self.jobs.stranded(gang)

    def report_defect(self, error: Exception) -> None:
        """Count a failed cycle as an internal error."""
        self.internal_errors.add("cycle", error)

    def claim_room(self, now: float) -> float:
        """Ask nodes to keep room for waiting gangs. Returns when to ask again."""
        return self._claims.look(now)

    def claim_nothing(self) -> None:
        """Tell nodes that no room is claimed any more."""
        self._claims.drop()

    def gang_changed(self, gang: Gang) -> None:
        """Make cycles read the gang again, and request a cycle."""
        self.cache.gang_changed(gang)
        self._request_cycle()

    def rename(self, gang: Gang, name: str, job: JobId) -> None:
        """Give a gang the name of another job."""
        before = gang.uid, [gang.task(index) for index in range(len(gang.members))]
        self._live_cluster.forget(gang)
        self.registry.rename(gang, name, job)
        self.cache.gang_renamed(gang, *before)

    def gang_amended(self, gang: Gang) -> None:
        """Make cycles read the gang's terms again."""
        self.cache.gang_amended(gang)
        self.cycles.changes += 1

    def _request_cycle(self, within_s: float = 0.0) -> None:
        self.cycles.request_cycle(within_s)

    def _busy_changed(self) -> None:
        # queues with work share the deserved amounts of queues without work
        self.cache.queues_changed()

    def _queues_changed(self) -> None:
        self.books.only(one.name for one in self.queues.table.all())
        self.cache.queues_changed()
        self._request_cycle()
        weights = self.queues.weights()
        if weights != self._weights:
            self._weights = weights
            self._outbox.broadcast(QueueWeights(weights))

    def _rules_changed(self) -> None:
        self.books.rules_changed(self.rules.current())
        if Reservation.name not in self.rules.current().plugin_names():
            self.promises.drop()
        self.cache.rules_changed()
        self.cycles.pace = msgspec.structs.replace(
            self.cycles.pace, every_cycle_may_evict=self.rules.every_cycle_may_evict
        )
        self._request_cycle()

    # ---- a restarted head --------------------------------------------------------------------

    def restore(self, stored: Mapping[str, list[bytes]]) -> None:
        """Restore everything from the rows that an earlier head wrote. `stored` has the rows of
        each table. Nodes must have been restored before.
        """
        restore(self, stored, self._job_changed)
        self._request_cycle()
