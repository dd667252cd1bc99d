"""The head's gang scheduler on simulated machines, with its cache, pacing, plan applier and life
cycle. A job is a gang. Machines always have the resources that a plan assigns, and answer
immediately. So no gang is ever refused, and nothing runs outside of gangs. Everything else is the
head's code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.cycle_times import CycleTimes
from phalanx.head.gangs.cycles import NEVER, Cycles, Pace
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_lifecycle import Evicted, MemberLifecycle
from phalanx.head.gangs.member_states import HELD
from phalanx.head.gangs.minimums import has_minimum
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.gangs.quarantine import Quarantine
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.head.groups.give_backs import Ending
from phalanx.head.shares.usage_ledger import UsageLedger, UsageRow
from phalanx.model.ids import GroupId
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import NodeSpec, QueueSpec
from phalanx.scheduler.plugin_parts.users import BOOKS
from phalanx_research.timed.progress import Work
from phalanx_research.timed.simulated_cluster import SimulatedCluster
from phalanx_research.timed.workload import NOTHING_KEPT, KeptApart, Rules
from phalanx_research.virtual_time import VirtualClock


class Changes:
    """The changes that a cycle made: the tasks of each job that lost their places, and the tasks
    that got places. If a cycle reassigns the whole cluster, a task may be in both.
    """

    def __init__(self) -> None:
        self.lost: dict[Work, set[int]] = {}
        self.arrived: dict[Work, set[int]] = {}
        self.decisions = 0
        """The number of binds and evictions."""


class SimulatedScheduler:
    """The scheduler of all submitted and unfinished jobs. Each job is a gang."""

    def __init__(
        self,
        machines: Sequence[NodeSpec],
        queues: Sequence[QueueSpec],
        config: Configuration,
        rules: Rules,
        clock: VirtualClock,
        shells: Mapping[str, Any] | None = None,
        kept: KeptApart = NOTHING_KEPT,
    ) -> None:
        self._source = source = SimulatedCluster(machines, queues, rules, kept)
        self._registry = registry = GangRegistry(_keep_nothing, _nothing_follows)
        seen, member_of = registry.window.seen, registry.member_of
        set_aside = Quarantine(lambda error, gang: self.report_defect(error))
        books = UsageLedger(_keep_nothing, clock.wall, config, source.shape)
        books.load(
            UsageRow(
                queue=queue.name, user=one.name, use=one.use, at=one.at or 0.0, shares=one.shares
            )
            for queue in queues
            for one in queue.users
        )
        self._cache = SchedulerCache(
            lambda has_paths: config,
            source,
            seen,
            member_of,
            set_aside,
            {BOOKS: books, **(shells or {})},
        )
        pace = rules.pace or _pace(rules.period_s)
        self._clock = clock
        meter = Meter()
        times = CycleTimes(meter, clock, None)
        self._cycles = Cycles(clock, registry, self._cache, source, self, pace, times)
        lifecycle = MemberLifecycle(registry, self._cache, books, self._cycles)
        self._reservations = GangBinder(
            registry, lifecycle, self, self, clock, lambda gang: has_minimum(gang, source), str
        )
        amended = self._cache.gang_amended
        self._applier = PlanApplier(
            registry, self._reservations, source, self, amended, self._failed, meter
        )
        self._changes = Changes()
        # make the columns while they are empty, so that jobs come in order of arrival
        self.cluster()

    # ---- events ------------------------------------------------------------------------------

    def submit(self, works: Iterable[Work]) -> None:
        """Add jobs. They wait for places from now on."""
        for work in works:
            self._source.works[work.gang_id] = work
            self._reservations.add(_gang(work))

    def end(self, work: Work, tasks: Iterable[int]) -> None:
        """Remove tasks that have ended."""
        self._reservations.end(self._gang_of(work), tasks)

    def amend(self, work: Work) -> None:
        """Record that a job's description has changed."""
        self._cache.gang_amended(self._gang_of(work))

    def request_cycle(self) -> None:
        """Request a cycle, because something has changed or time has passed."""
        self._cycles.request_cycle()

    # ---- cycles ------------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """The time of the next cycle; infinite if no cycle is due."""
        return self._cycles.wake_at

    def take_all_back(self, works: Iterable[Work]) -> None:
        """Remove all tasks of these jobs from their machines, so that they wait for the next
        cycle.
        """
        for work in works:
            gang = self._gang_of(work)
            self._reservations.handle(gang, gang.among(HELD), Evicted())

    def round(self) -> Changes:
        """Run the cycle that is due. Returns its changes, together with the changes of
        `take_all_back`.
        """
        self._cycles.round(self._clock.now())
        changes, self._changes = self._changes, Changes()
        return changes

    def cluster(self) -> Cluster:
        """Return the present machines, queues and tasks. The result is valid until the next
        change.
        """
        return self._cache.cluster(self._clock.now(), self._clock.now())

    def _gang_of(self, work: Work) -> Gang:
        return self._registry.gangs[work.gang_id]

    def _work_of(self, gang: Gang) -> Work:
        return self._source.works[gang.gang_id]

    # ---- effects of cycles (CycleEffects, PlanEffects) ---------------------------------------

    def apply(self, plan: Plan) -> None:
        """Apply a plan, and count its decisions."""
        self._changes.decisions += len(plan.binds) + len(plan.evictions)
        self._applier.apply(plan)

    def stranded(self, gang: Gang) -> None:
        """Do nothing, since the gang keeps waiting."""

    def claim_room(self, now: float) -> float:
        """Do nothing, since no tasks outside of gangs could hold room."""
        return NEVER

    def claim_nothing(self) -> None:
        """Do nothing, since no room is claimed."""

    def report_defect(self, error: Exception) -> None:
        """Raise the error, since an internal error must end a simulation."""
        raise error

    def _failed(self, gang: Gang, error: Exception) -> None:
        raise error

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """Do nothing, since `lost` handles evicted tasks."""

    def placing(self, gang: Gang, nodes: Collection[str]) -> bool:
        """Return True, because jobs need no ports."""
        return True

    # ---- effects on machines (ReservationEffects) --------------------------------------------

    def prepare(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Prepare bundles. The machine answers immediately."""
        self._reservations.attempts.prepared(node_id, gang.gang_id, number, True, self._clock.now())

    def commit(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Commit bundles. The machine answers immediately."""
        self._reservations.attempts.committed(
            node_id, gang.gang_id, number, True, self._clock.now()
        )

    def give_back(
        self, node_id: str, group: GroupId, number: int, indexes: list[int], ending: Ending
    ) -> None:
        """Give bundles back. The machine answers immediately."""
        self._reservations.returned(node_id, group, number)

    def when_written(self, action: Callable[[], None]) -> None:
        """Run the action immediately, since nothing is stored."""
        action()

    def changed(self, gang: Gang) -> None:
        """Do nothing, since nobody reads bundles."""

    # ---- changes of tasks (Listener) ---------------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """Record that tasks have got places."""
        self._changes.arrived.setdefault(self._work_of(gang), set()).update(members)

    def lost(self, gang: Gang, members: list[int]) -> None:
        """Record that tasks lost their places."""
        self._changes.lost.setdefault(self._work_of(gang), set()).update(members)

    def rests(self, gang: Gang) -> None:
        """Raise an error. Machines never refuse, so the plan itself placed fewer tasks than the
        minimum.
        """
        raise AssertionError(f"job {gang.name.strip()} was to start with too few tasks")

    def over(self, gang: Gang) -> None:
        """Do nothing, since the end of the job is handled elsewhere."""
        self._cache.gang_changed(gang)
        del self._source.works[gang.gang_id]


def _pace(period_s: float) -> Pace:
    """Return a pace with `period_s` seconds between cycles. Every cycle may evict."""
    return Pace(
        pause_s=period_s,
        pause=0.0,
        eviction_pause_s=0.0,
        eviction_pause=0.0,
        every_cycle_may_evict=True,
    )


def _gang(work: Work) -> Gang:
    """Return the gang of a job. Each gang has its own `kind`, because policies may treat jobs with
    equal requests differently, for example by run time.
    """
    job = work.job
    return Gang(
        gang_id=work.gang_id,
        name=work.called,
        queue=job.queue,
        priority=job.priority,
        min_members=job.least,
        members=[Member(need=_NO_NEED) for _ in range(work.size)],
        creator=b"",
        created=job.submit_s,
        kind=work.gang_id,
        user=job.user,
        port_count=0,
    )


_NO_NEED: dict[str, float] = {}
"""The resources in the leases of simulated tasks. No code reads them; `SimulatedCluster.shape` has
the tasks' requests.
"""


def _keep_nothing(table: str, key: bytes, row: object) -> None:
    """Store nothing."""


def _nothing_follows() -> None:
    """Do nothing: the workload defines what queues deserve, whether or not they have jobs."""
