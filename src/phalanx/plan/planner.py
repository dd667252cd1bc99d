"""Plans in time: the first that wait are promised places, and the others fill what is left.

Conservative backfill: podgroups are taken in their order (see `order`), each at the earliest time
at which it has room until its end beside all that run and all that were planned before it. So
whoever starts earlier than somebody ahead of it delays nobody. A place that was promised once is
kept from plan to plan until an earlier one is found: work that ends early would else let those
behind go first into it. Only who comes before, in order, ends a promise. Lengths are limits, or
what nine in ten of the same work's past runs took.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from phalanx.batch.amounts import PODS, Counts, Vector
from phalanx.batch.cluster import Cluster
from phalanx.batch.jobs import Job
from phalanx.batch.plugins.reservation import PLANNER, Reservation
from phalanx.batch.session import Session
from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace, TimePlan
from phalanx.plan.grid import Grid
from phalanx.plan.lines import Lines
from phalanx.plan.order import WaitingOrder, waits
from phalanx.plan.reading import OF_LICENSE, Picture
from phalanx.plan.run_times import EARLY, LATE, LearntRunTimes
from phalanx.plan.timetable import Demand, Taking, Timetable

PROMISED = 32
"""So many podgroups of each queue, the first that wait, are promised places."""


class Entry:
    """A podgroup that waits, and the room that was found for it."""

    __slots__ = ("job", "past_runs", "taking")

    def __init__(self, job: Job, taking: Taking, past_runs: int) -> None:
        self.job = job
        self.taking = taking
        self.past_runs = past_runs


class Kept:
    """A place in time that a podgroup was promised: nodes by name, as others may come and go."""

    __slots__ = ("_at_s", "_counts", "_nodes", "_wanted")

    def __init__(self, taking: Taking, grid: Grid, names: Sequence[str]) -> None:
        self._at_s = grid.at(taking.first)
        self._wanted = _wanted(taking.demand)
        self._nodes = [[names[node] for node in nodes.tolist()] for nodes, _ in taking.places]
        self._counts = [counts for _, counts in taking.places]

    def again(self, table: Timetable, demand: Demand, at: Mapping[str, int]) -> Taking | None:
        """The same place in a later timetable; None if it is free no more, or asks for else."""
        if _wanted(demand) != self._wanted:
            return None
        if not all(name in at for nodes in self._nodes for name in nodes):
            return None
        indexes = [np.array([at[name] for name in nodes], dtype=np.intp) for nodes in self._nodes]
        return table.at(demand, self._at_s, tuple(zip(indexes, self._counts, strict=True)))


def _wanted(demand: Demand) -> list[tuple[int, bytes]]:
    return [(part.count, part.request.tobytes()) for part in demand.parts]


class Draft:
    """A plan as it grows, over one session."""

    def __init__(
        self, session: Session, learnt: LearntRunTimes | None = None, quantile: float = LATE
    ) -> None:
        self.session = session
        self.picture = Picture(session, learnt, quantile)
        self.table: Timetable = self.picture.timetable()
        self.entries: list[Entry] = []
        self.unknown: list[Job] = []
        self._found: dict[tuple[object, ...], _Found] = {}
        self._at = self.picture.lines.index

    def add(self, jobs: Sequence[Job], kept: Mapping[str, Kept], *, improves: bool) -> None:
        """Plan these, in this order, after all that were; none later than it is `kept` places,
        unless somebody new is ahead of it, and earlier only where this `improves` on that."""
        demands = [(job, *self._demand(job)) for job in jobs]
        held: dict[str, Taking] = {}
        for job, demand, _ in demands:
            if job.uid not in kept:
                break
            taking = None if demand is None else kept[job.uid].again(self.table, demand, self._at)
            if taking is not None:
                self.table.take(taking)
                held[job.uid] = taking
        for job, demand, past_runs in demands:
            if demand is None:
                continue
            before = held.get(job.uid)
            if before is not None and not improves:
                self.entries.append(Entry(job, before, past_runs))
                continue
            taking = self._earliest(demand) if before is None else self._earlier(before)
            if taking is None:
                self.unknown.append(job)
                continue
            self.table.take(taking)
            self.entries.append(Entry(job, taking, past_runs))

    def _demand(self, job: Job) -> tuple[Demand | None, int]:
        length = self.picture.length(job.spec)
        return self.picture.demand(job, length), length.past_runs

    def _earlier(self, before: Taking) -> Taking:
        """Gives the room back; an earlier one if there is, or the same."""
        self.table.give_back(before)
        taking = self._earliest(before.demand, before.first) if before.first else None
        if taking is None:
            return before
        self._found.clear()  # what was given back may be what somebody did not find
        return taking

    def alone(self, jobs: Iterable[Job]) -> dict[str, float]:
        """When each of these could start if nobody else waited, by podgroup. Takes nothing."""
        found = ((job, self._demand(job)[0]) for job in jobs)
        takings = ((job, self._earliest(d)) for job, d in found if d is not None)
        grid = self.picture.grid
        return {job.uid: grid.at(taking.first) for job, taking in takings if taking is not None}

    def start_now(self, jobs: Iterable[Job]) -> list[Job]:
        """Of these, in this order, plan those that can start now beside all that was planned.
        The others."""
        waiting: list[Job] = []
        hopeless: set[object] = set()
        for job in jobs:
            kind = self.picture.kind(job)
            if kind in hopeless:
                waiting.append(job)
                continue
            demand, past_runs = self._demand(job)
            if demand is None:
                continue
            taking = self._earliest(demand, 1)
            if taking is None:
                waiting.append(job)
                if kind is not None:
                    hopeless.add(kind)
            else:
                self.table.take(taking)
                self.entries.append(Entry(job, taking, past_runs))
        return waiting

    def _earliest(self, demand: Demand, end: int | None = None) -> Taking | None:
        """As the timetable says. Room only ever shrinks while a plan grows: nobody asks again for
        a time at which less was not to be had."""
        key = (demand.quotas, *((part.eq_class, id(part.nodes)) for part in demand.parts))
        found = self._found.setdefault(key, _Found())
        counts = tuple(part.count for part in demand.parts)
        begin = found.begin(counts, demand.length_s)
        never = len(self.table.grid) if end is None else end
        if begin >= never:
            return None
        taking = self.table.earliest(demand, begin, end)
        found.add(counts, demand.length_s, never if taking is None else taking.first)
        return taking


class _Found:
    """When there was room for demands of one kind: how many tasks, how long, and when."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], float], int] = {}

    def begin(self, counts: tuple[int, ...], length_s: float | None) -> int:
        """No such demand has room before this time."""
        long = float("inf") if length_s is None else length_s
        found = self._known.get((counts, long))
        if found is not None:
            return found
        return max(
            (
                at
                for (least, shorter), at in self._known.items()
                if shorter <= long and all(a <= b for a, b in zip(least, counts, strict=True))
            ),
            default=0,
        )

    def add(self, counts: tuple[int, ...], length_s: float | None, at: int) -> None:
        self._known[counts, float("inf") if length_s is None else length_s] = at


class Planner:
    """Makes plans, and keeps from cycle to cycle what was promised, and in which order."""

    def __init__(self, learnt: LearntRunTimes | None = None) -> None:
        self._learnt = learnt
        self._order = WaitingOrder()
        self._kept: dict[str, Kept] = {}

    def plan(self, session: Session, most: int | None = None) -> TimePlan:
        """When all that waits in a session starts, if nothing else comes; of the first `most`, in
        order. Nothing is promised by that."""
        waiting = self._order.sorted(session, plannable(session))[:most]
        draft = Draft(session, self._learnt)
        draft.add(waiting, self._kept, improves=False)  # else it would say what nobody keeps
        earliest: dict[str, float] = {}
        if draft.picture.rests_on_learnt:
            earliest = Draft(session, self._learnt, EARLY).alone(waiting)
        return TimePlan(
            now=session.now,
            starts=tuple(_starts(draft, earliest)),
            unknown=tuple(job.uid for job in draft.unknown),
            running=tuple(_running(draft)),
        )

    def promises(self, session: Session, promised: int, minimum: int) -> CyclePromises:
        """See LentPlanner: in a cycle only the first of each queue are planned, and whoever else
        can start now."""
        first: list[Job] = []
        others: list[Job] = []
        ranks: dict[int, int] = {}
        waiting = self._order.sorted(session, plannable(session))
        self._order.remember(waiting)
        for job in waiting:
            rank = ranks[job.queue] = ranks.get(job.queue, 0) + 1
            is_first = rank <= promised and job.min_available >= minimum
            (first if is_first else others).append(job)
        draft = Draft(session, self._learnt)
        draft.add(first, self._kept, improves=True)
        names, grid = draft.picture.lines.names, draft.picture.grid
        self._kept = {e.job.uid: Kept(e.taking, grid, names) for e in draft.entries}
        return CyclePromises(draft, draft.start_now(others))


def lent(planner: Planner | None = None) -> dict[str, Any]:
    """What cycles are lent so that the plugin `reservation` has its planner."""
    return {PLANNER: planner or Planner()}


class CyclePromises:
    """See Promises."""

    def __init__(self, draft: Draft, others: Iterable[Job]) -> None:
        """`others` were not planned, and cannot start now."""
        self._table = draft.table
        self.held_back: dict[str, float | None] = {}
        self.places: dict[str, dict[int, Counts]] = {}
        for entry in draft.entries:
            if entry.taking.first:
                self.held_back[entry.job.uid] = draft.picture.grid.at(entry.taking.first)
            else:
                self.places[entry.job.uid] = dict(_by_class(entry.taking, draft.picture.lines))
        self.held_back.update((job.uid, None) for job in (*draft.unknown, *others))

    def spare(self, length_s: float | None) -> Vector:
        """See Promises."""
        return self._table.spare(length_s)


def _by_class(taking: Taking, lines: Lines) -> Iterator[tuple[int, Counts]]:
    for part, (at, counts) in zip(taking.demand.parts, taking.places, strict=True):
        if part.eq_class == OF_LICENSE:
            continue
        column = np.zeros(len(lines) - lines.extra, dtype=np.int64)
        for node, count in lines.loads(at, counts):
            column[node] += count
        yield part.eq_class, column


def plannable(session: Session) -> list[Job]:
    """Podgroups that wait and of which a plan can tell when they start."""
    cluster = session.cluster
    return [
        job
        for job in cluster.jobs
        if waits(job) and cluster.queues[job.queue].state == "Open" and session.job_valid(job)
    ]


TASKS, BY_LIMIT, BY_PAST, PAST_RUNS = range(4)


class _Ended:
    """How much has ended by each time of the grid, of what was planned so far."""

    def __init__(self, rows: int) -> None:
        self._counts: Counts = np.zeros((rows + 1, 4), dtype=np.int64)

    def add(self, at: int, tasks: int, past_runs: int, *, is_job: bool) -> None:
        row = self._counts[at]
        row[TASKS] += tasks
        if is_job:
            row[BY_PAST if past_runs else BY_LIMIT] += 1
            row[PAST_RUNS] += past_runs

    def by(self, at: int) -> tuple[int, Basis]:
        """Tasks that have ended by a time, and the jobs that they are."""
        if not at:
            return 0, Basis()
        tasks, by_limit, by_past, past_runs = self._counts[1 : at + 1].sum(axis=0).tolist()
        return tasks, Basis(by_limit=by_limit, by_past_runs=by_past, past_runs=past_runs)


def _starts(draft: Draft, earliest: Mapping[str, float]) -> Iterator[PlannedStart]:
    cluster, grid = draft.session.cluster, draft.picture.grid
    is_kept = Reservation.name in draft.session.config.plugin_names()
    ended = _Ended(len(grid))
    seen: set[str] = set()
    for one in draft.picture.endings:
        if one.end_s is not None:
            at = min(max(1, grid.rounded_up(one.end_s)), len(grid))
            ended.add(at, one.count, one.past_runs, is_job=one.job.uid not in seen)
            seen.add(one.job.uid)
    ahead: dict[int, int] = {}
    latest = 0
    for entry in draft.entries:
        job, taking = entry.job, entry.taking
        after_tasks, basis = ended.by(taking.first)
        rank = ahead[job.queue] = ahead.get(job.queue, 0) + 1
        length_s = taking.demand.length_s
        at_s = grid.at(taking.first)
        early = earliest.get(job.uid)
        yield PlannedStart(
            podgroup=job.uid,
            queue=cluster.queues[job.queue].name,
            at_s=at_s,
            ends_s=_ends_s(draft, job, at_s, length_s),
            after_tasks=after_tasks,
            basis=basis,
            is_promised=is_kept and rank <= PROMISED,
            fills=taking.first < latest,
            places=tuple(_places(draft, taking)) if rank <= PROMISED else (),
            earliest_s=early if early is not None and early < at_s else None,
        )
        latest = max(latest, taking.first)
        tasks = sum(p.count for p in taking.demand.parts if p.eq_class != OF_LICENSE)
        ended.add(taking.last, tasks, entry.past_runs, is_job=True)


def _ends_s(draft: Draft, job: Job, at_s: float, length_s: float | None) -> float | None:
    """When it has ended: its reservation may end before its limit."""
    host = draft.picture.calendar.host(job)
    window = None if host is None else host.window_at(at_s)
    ends = [] if length_s is None else [at_s + length_s]
    if window is not None and not math.isinf(window.end_s):
        ends.append(window.end_s)
    return min(ends, default=None)


def _places(draft: Draft, taking: Taking) -> Iterator[Place]:
    """By node, in the order of names."""
    cluster = draft.session.cluster
    tasks: dict[int, int] = {}
    loads: dict[int, Vector] = {}
    for part, (lines, counts) in zip(taking.demand.parts, taking.places, strict=True):
        for node, count in draft.picture.lines.loads(lines, counts):
            tasks[node] = tasks.get(node, 0) + count
            loads[node] = loads.get(node, 0) + part.request * count
    for node in sorted(tasks):
        yield _place(cluster, node, tasks[node], loads[node])


def _place(cluster: Cluster, node: int, tasks: int, load: Vector) -> Place:
    names, written = cluster.dims.names, cluster.dims.written
    return Place(
        node=cluster.node_names[node],
        tasks=tasks,
        devices={
            names[r]: written(r, float(load[r])) for r in range(PODS + 1, len(names)) if load[r]
        },
    )


def _running(draft: Draft) -> Iterator[RunningPlace]:
    cluster = draft.session.cluster
    for one in draft.picture.endings:
        place = _place(cluster, one.node, one.count, one.eq_class.vector * one.count)
        yield RunningPlace(podgroup=one.job.uid, place=place, ends_s=one.end_s)
