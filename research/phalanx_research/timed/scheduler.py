"""The head's gang scheduler on simulated machines: its cache, pacing, plan applier and life cycle.

A job is a gang. Machines always have what a plan gives them and answer at once, so no gang is ever
refused and nothing runs outside of gangs. Everything else is the head's code.
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
from phalanx.observe.metrics.meter import Meter
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import NodeSpec, QueueSpec
from phalanx.scheduler.plugin_parts.users import BOOKS
from phalanx_research.timed.progress import Work
from phalanx_research.timed.simulated_cluster import SimulatedCluster
from phalanx_research.timed.workload import NOTHING_KEPT, KeptApart, Rules


class VirtualClock:
    """Shows the time that it was set to, in seconds."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        """See Clock."""
        return self.at

    def wall(self) -> float:
        """See Clock."""
        return self.at


class Changes:
    """What a cycle changed: tasks that lost their places and tasks that got one, by job. In a cycle
    that gives out everything anew a task may be in both."""

    def __init__(self) -> None:
        self.lost: dict[Work, set[int]] = {}
        self.arrived: dict[Work, set[int]] = {}
        self.decisions = 0
        """Binds and evictions."""


class SimulatedScheduler:
    """All jobs that are submitted and not through, as gangs."""

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
            registry, lifecycle, self, self, clock, lambda gang: has_minimum(gang, source)
        )
        amended = self._cache.gang_amended
        self._applier = PlanApplier(
            registry, self._reservations, source, self, amended, self._failed, meter
        )
        self._changes = Changes()
        self.cluster()  # the columns begin empty, so that jobs stand in them in order of arrival

    # ---- what happens ------------------------------------------------------------------------

    def submit(self, works: Iterable[Work]) -> None:
        """Jobs wait for their places from now on."""
        for work in works:
            self._source.works[work.group] = work
            self._reservations.add(_gang(work))

    def end(self, work: Work, tasks: Iterable[int]) -> None:
        """Tasks are through."""
        self._reservations.end(self._gang_of(work), tasks)

    def amend(self, work: Work) -> None:
        """A job says something else of itself than before."""
        self._cache.gang_amended(self._gang_of(work))

    def request_cycle(self) -> None:
        """Something changed, or time alone is a reason."""
        self._cycles.request_cycle()

    # ---- cycles ------------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        """When the next cycle is due; infinite where nothing changed."""
        return self._cycles.wake_at

    def take_all_back(self, works: Iterable[Work]) -> None:
        """All tasks of these jobs are off their machines and wait, until the next cycle."""
        for work in works:
            gang = self._gang_of(work)
            self._reservations.handle(gang, gang.among(HELD), Evicted())

    def round(self) -> Changes:
        """Run the cycle that is due. What came of it, and of `take_all_back`."""
        self._cycles.round(self._clock.at)
        changes, self._changes = self._changes, Changes()
        return changes

    def cluster(self) -> Cluster:
        """Machines, queues and tasks as they are now; valid until the next change."""
        return self._cache.cluster(self._clock.at, self._clock.at)

    def _gang_of(self, work: Work) -> Gang:
        return self._registry.gangs[work.group]

    def _work_of(self, gang: Gang) -> Work:
        return self._source.works[gang.group]

    # ---- what cycles lead to (CycleEffects, PlanEffects) -------------------------------------

    def apply(self, plan: Plan) -> None:
        """See CycleEffects."""
        self._changes.decisions += len(plan.binds) + len(plan.evictions)
        self._applier.apply(plan)

    def stranded(self, gang: Gang) -> None:
        """See CycleEffects: it waits on."""

    def claim_room(self, now: float) -> float:
        """See CycleEffects: nothing runs outside of gangs."""
        return NEVER

    def claim_nothing(self) -> None:
        """See CycleEffects."""

    def report_defect(self, error: Exception) -> None:
        """See CycleEffects: a simulation ends with it."""
        raise error

    def _failed(self, gang: Gang, error: Exception) -> None:
        raise error

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """See PlanEffects."""

    def placing(self, gang: Gang, nodes: Collection[str]) -> bool:
        """See PlanEffects: jobs need no ports."""
        return True

    # ---- what machines do (ReservationEffects) -----------------------------------------------

    def prepare(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """See ReservationEffects."""
        self._reservations.attempts.prepared(node_id, gang.group, number, True, self._clock.at)

    def commit(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """See ReservationEffects."""
        self._reservations.attempts.committed(node_id, gang.group, number, True, self._clock.at)

    def give_back(
        self, node_id: str, group: bytes, number: int, indexes: list[int], ending: Ending
    ) -> None:
        """See ReservationEffects."""
        self._reservations.returned(node_id, group, number)

    def when_written(self, action: Callable[[], None]) -> None:
        """See ReservationEffects: nothing is stored."""
        action()

    def changed(self, gang: Gang) -> None:
        """See ReservationEffects: nobody looks at bundles."""

    # ---- what became of tasks (Listener) -----------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """See Listener."""
        self._changes.arrived.setdefault(self._work_of(gang), set()).update(members)

    def lost(self, gang: Gang, members: list[int]) -> None:
        """See Listener."""
        self._changes.lost.setdefault(self._work_of(gang), set()).update(members)

    def rests(self, gang: Gang) -> None:
        """See Listener. No machine refuses, so a plan gave places to fewer than the minimum."""
        raise AssertionError(f"job {gang.name.strip()} was to start with too few tasks")

    def over(self, gang: Gang) -> None:
        """See Listener."""
        self._cache.gang_changed(gang)
        del self._source.works[gang.group]


def _pace(period_s: float) -> Pace:
    """Cycles so far apart, each of which may evict."""
    return Pace(
        pause_s=period_s, pause=0.0, eviction_pause_s=0.0, eviction_pause=0.0, always_evicts=True
    )


def _gang(work: Work) -> Gang:
    """`kind` is its own: policies may tell jobs apart that ask for the same, as by run time."""
    job = work.job
    return Gang(
        group=work.group,
        name=work.called,
        queue=job.queue,
        priority=job.priority,
        min_members=job.least,
        members=[Member(need=_NO_NEED) for _ in range(work.size)],
        creator=b"",
        created=job.submit_s,
        kind=work.group,
        user=job.user,
        port_count=0,
    )


_NO_NEED: dict[str, float] = {}
"""Leases of simulated tasks are never asked for: `SimulatedCluster.shape` says what they need."""


def _keep_nothing(table: str, key: bytes, row: object) -> None:
    """Nothing is stored."""


def _nothing_follows() -> None:
    """Queues deserve what the workload says, whichever of them have jobs."""
