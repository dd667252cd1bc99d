"""The results of a whole plan: for each waiting podgroup, its start, its places, and the basis of
the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from phalanx.model.rows.plan import Basis, Place, PlannedStart, RunningPlace
from phalanx.scheduler.cycle.amounts import PODS, Counts, Vector
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.forecast.draft import Draft
from phalanx.scheduler.forecast.reading import OF_LICENSE
from phalanx.scheduler.forecast.run_times import LearntRunTimes
from phalanx.scheduler.forecast.timetable import Taking
from phalanx.scheduler.forecast.track_record import StartEstimate
from phalanx.scheduler.plugins.reservation import Reservation

PROMISED = 32
"""The number of podgroups of each queue that are promised places: those that are first in the
order.
"""

TASKS, BY_LIMIT, BY_PAST, PAST_RUNS = range(4)


class _Ended:
    """Counts the tasks and jobs that will have ended by each time of the grid."""

    def __init__(self, rows: int) -> None:
        self._counts: Counts = np.zeros((rows + 1, 4), dtype=np.int64)

    def add(self, at: int, tasks: int, past_runs: int, *, is_job: bool) -> None:
        row = self._counts[at]
        row[TASKS] += tasks
        if is_job:
            row[BY_PAST if past_runs else BY_LIMIT] += 1
            row[PAST_RUNS] += past_runs

    def by(self, at: int) -> tuple[int, Basis]:
        """Return the number of tasks that will have ended by a time, and the basis on which their
        ends are known: time limits or past runs.
        """
        if not at:
            return 0, Basis()
        tasks, by_limit, by_past, past_runs = self._counts[1 : at + 1].sum(axis=0).tolist()
        return tasks, Basis(by_limit=by_limit, by_past_runs=by_past, past_runs=past_runs)


def starts(
    draft: Draft, earliest: Mapping[str, float], learnt: LearntRunTimes | None
) -> Iterator[PlannedStart]:
    """Yield the start of every planned podgroup.

    `earliest`: for each podgroup, the time at which it could start if nothing else waited;
    podgroups without a known time are missing.
    """
    cluster, grid = draft.session.cluster, draft.snapshot.grid
    is_kept = Reservation.name in draft.session.config.plugin_names()
    ended = _Ended(len(grid))
    seen: set[str] = set()
    for one in draft.snapshot.endings:
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
        if early is not None and early < at_s and learnt is not None:
            estimate = StartEstimate(draft.session.now, early, at_s)
            early, at_s = learnt.track_record.report(job.uid, estimate)
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
    """Return the time in seconds at which a podgroup ends: by its length, or earlier with its
    reservation; None if unknown.
    """
    host = draft.snapshot.calendar.host(job)
    window = None if host is None else host.window_at(at_s)
    ends = [] if length_s is None else [at_s + length_s]
    if window is not None and not math.isinf(window.end_s):
        ends.append(window.end_s)
    return min(ends, default=None)


def _places(draft: Draft, taking: Taking) -> Iterator[Place]:
    """Yield a podgroup's places by node, in the order of names."""
    cluster = draft.session.cluster
    tasks: dict[int, int] = {}
    loads: dict[int, Vector] = {}
    for part, (lines, counts) in zip(taking.demand.parts, taking.places, strict=True):
        for node, count in draft.snapshot.lines.loads(lines, counts):
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


def running(draft: Draft) -> Iterator[RunningPlace]:
    """Yield the running podgroups, with the times at which they end."""
    cluster = draft.session.cluster
    for one in draft.snapshot.all_endings():
        place = _place(cluster, one.node, one.count, one.eq_class.vector * one.count)
        yield RunningPlace(podgroup=one.job.uid, place=place, ends_s=one.end_s)
