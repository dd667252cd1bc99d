"""Reads the inputs of a plan from a session: nodes and quotas, running work, and waiting work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import PODS, Counts, Flags, Vector
from phalanx.scheduler.cycle.calendar import Calendar
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.matching import meets
from phalanx.scheduler.cycle.rows import Indexes
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import PodGroupSpec
from phalanx.scheduler.forecast.grid import Grid
from phalanx.scheduler.forecast.reservation_timeline import ReservationTimeline, boundaries
from phalanx.scheduler.forecast.run_times import LATE, LearntRunTimes
from phalanx.scheduler.forecast.timetable import UNLIMITED, Demand, Part, Timetable, is_ever_room

OF_LICENSE = -1
"""Stands in `Part.eq_class` for the class of the tasks, if the part of the demand is for licenses
and not for tasks.
"""


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long work runs: `seconds` from its start, or None if unknown. `past_runs`: the number of
    past runs from which the length was learnt; 0 if it is a time limit.
    """

    seconds: float | None
    past_runs: int = 0


UNKNOWN = Length(seconds=None)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Tasks of a job on one node, and the time at which they end, in seconds; None if unknown."""

    job: Job
    node: int
    eq_class: EquivalenceClass
    count: int
    end_s: float | None
    past_runs: int


class ClusterSnapshot:
    """A session as a plan reads it. `quantile`: the quantile of past runs that counts as the length
    of work without a limit.
    """

    def __init__(
        self, session: Session, learnt: LearntRunTimes | None = None, quantile: float = LATE
    ) -> None:
        self.session = session
        self._learnt = learnt
        self._quantile = quantile
        cluster, known = session.cluster, session.snapshot
        self._moving = {cluster.job_of[t] for t in session.homes}
        self.calendar = Calendar(cluster, known.reservations, session.now)
        self.grid = Grid(session.now, boundaries(self.calendar))
        self.lines = ReservationTimeline(cluster, self.calendar, known.licenses, self.grid)
        self._quotas: dict[str, int] = {}
        self._quota_rows: list[Vector] = []
        self._of_queue: dict[int, tuple[int, ...]] = {}
        self._quotas_of: dict[int, tuple[int, ...]] = {}
        self._masks: dict[tuple[str, bytes], Flags] = {}
        self._naming: dict[str, bool] = {}
        runs = [job for job in cluster.jobs if self._holds(job)]
        self.endless = [job for job in runs if not self._may_end(job)]
        """Running jobs without a known end."""
        self.endings = [
            ending for job in runs if self._may_end(job) for ending in self._endings(job)
        ]
        """The ends of all running work that has a known end."""
        self.rests_on_learnt = any(ending.past_runs for ending in self.endings)
        """Whether any length that was read so far comes from past runs."""

    def _holds(self, job: Job) -> bool:
        """Whether the job runs, or a move has set room aside for it."""
        return bool(job.holding_count()) or job.index in self._moving

    # ---- lengths -----------------------------------------------------------------------------

    def length(self, group: PodGroupSpec, ran_s: float = 0.0) -> Length:
        """Return how long a podgroup runs in total. `ran_s`: the seconds for which it has already
        run.
        """
        if group.run_time_s is not None:
            return Length(seconds=group.run_time_s)
        past = None if self._learnt is None else self._learnt.of(group)
        if past is None:
            return UNKNOWN
        seconds = past.quantile(self._quantile, ran_s)
        if seconds is None:
            return UNKNOWN
        self.rests_on_learnt = True
        return Length(seconds=seconds, past_runs=len(past))

    def _may_end(self, job: Job) -> bool:
        """Whether the job's end can be known: it has a time limit, runs in a reservation, or has a
        length that was learnt from past runs.
        """
        group = job.spec
        is_told = group.run_time_s is not None or self.calendar.host(job) is not None
        return is_told or (self._learnt is not None and self._learnt.of(group) is not None)

    def all_endings(self) -> Iterator[Ending]:
        """Yield the ends of all running work, by job."""
        for job in self.session.cluster.jobs:
            if self._holds(job):
                yield from self._endings(job)

    def _endings(self, job: Job) -> Iterator[Ending]:
        cluster, now = self.session.cluster, self.session.now
        together: dict[tuple[int, int, float | None], int] = {}
        for t in job.tasks:
            status, node, started = cluster.status[t], cluster.node_of[t], cluster.started[t]
            if t in self.session.homes and status in (j.RELEASING, j.PIPELINED):
                node, started = self.session.homes[t], now  # the task begins anew there
            elif status not in j.HOLDING or node < 0:
                continue
            elif started is None:
                started = now if t in self.session.binds else job.spec.started
            key = (node, cluster.eq_class[t].index, started)
            together[key] = together.get(key, 0) + 1
        lengths = {
            started: UNKNOWN if started is None else self.length(job.spec, max(now - started, 0.0))
            for started in {started for _, _, started in together}
        }
        for (node, index, started), count in together.items():
            length = lengths[started]
            known = started is not None and length.seconds is not None
            yield Ending(
                job=job,
                node=node,
                eq_class=cluster.eq_classes[index],
                count=count,
                end_s=max(started + length.seconds, now) if known else None,  # type: ignore[operator]
                past_runs=length.past_runs,
            )

    # ---- room --------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[object, ...]:
        """The names of the timetable's columns (nodes, reserved parts, licenses), of its quotas,
        and of its resources.
        """
        return self.lines.names, list(self._quotas), self.session.cluster.dims.names

    def timetable(self) -> Timetable:
        """Return the amounts that are free over time if nothing more starts.

        Work that is leaving, or that should have ended already, counts as ending at the next time
        of the grid.
        """
        soon, later, ends = self._room()
        lines = self.lines
        return Timetable(
            self.grid,
            soon,
            later,
            lines.order(_filling_order(self.session.cluster.capacity)),
            ends,
            lines.within(),
        )

    def may_ever_start(self, job: Job) -> bool:
        """Whether a job would have room at some time if no other work waited. If it would not,
        running work without a known end is the usual reason. This check is far cheaper than a
        timetable.
        """
        demand = self.demand(job, self.length(job.spec))
        if demand is None:
            return False
        soon, later, ends = self._room()
        most = np.maximum(soon, later)
        for _, line, amounts in ends:
            most[line] += np.maximum(amounts, 0.0)
        return is_ever_room(demand, most)

    def _room(self) -> tuple[Vector, Vector, list[tuple[int, int, Vector]]]:
        """Return the arguments of Timetable: the free amounts now, those from the grid's next time
        on, and a list of (index of a time, column, amounts that become free at that time).
        """
        cluster, lines = self.session.cluster, self.lines
        for queue in dict.fromkeys(job.queue for job in cluster.jobs):
            self.quotas(queue)
        quotas = np.array(self._quota_rows, dtype=np.float64).reshape(-1, len(cluster.dims))
        others = np.zeros((lines.extra, len(cluster.dims)))
        soon: Vector = np.vstack((np.minimum(cluster.idle, cluster.future), others, quotas))
        later: Vector = np.vstack((cluster.future.astype(np.float64), others, quotas))
        ends: list[tuple[int, int, Vector]] = []
        for at, line, amounts in (*lines.changes(), *self._taken()):
            if at:
                ends.append((at, line, amounts))
            else:
                soon[line] += amounts
                later[line] += amounts
        return soon, later, [end for end in ends if end[0] < len(self.grid)]

    def _taken(self) -> Iterator[tuple[int, int, Vector]]:
        """Yield the amounts that running work frees, as (index of a time, column, amounts).

        Before that time, these amounts are not free on the node or within the quota of the column.
        """
        never = len(self.grid)
        released = {job.uid: never for job in self.endless}
        for one in self.endings:
            at = never if one.end_s is None else max(1, self.grid.rounded_up(one.end_s))
            host = self.calendar.host(one.job)
            line = self.lines.of_guest(host, one.node)
            if line is None and at == never:
                released[one.job.uid] = never
                continue
            load = one.eq_class.vector * one.count
            if line is not None and host is not None:
                at = max(1, self.lines.ended_by(host, at))
                yield 0, one.node, load
                yield 0, line, -load
            yield at, one.node if line is None else line, load
            yield from ((at, quota, load) for quota in self.quotas(one.job.queue))
            released[one.job.uid] = max(released.get(one.job.uid, 0), at)
        for job in self.session.cluster.jobs:
            if not job.spec.licenses or not (job.uid in released or job.counts[j.RELEASING]):
                continue
            for name, count in job.spec.licenses:
                line = self.lines.of_license(name)
                if line is not None:
                    yield 0, line, self.lines.slots(-count)
                    yield released.get(job.uid, 1), line, self.lines.slots(count)

    def quotas(self, queue: int) -> tuple[int, ...]:
        """Return the indexes of the timetable's columns for the quotas that limit a queue."""
        found = self._quotas_of.get(queue)
        if found is None:
            first = len(self.lines)
            found = self._quotas_of[queue] = tuple(first + line for line in self._lines(queue))
        return found

    def _lines(self, queue: int) -> tuple[int, ...]:
        found = self._of_queue.get(queue)
        if found is None:
            lines = []
            for fn in self.session.hooks.all("quotas"):
                for name, left in fn(queue):
                    if name not in self._quotas:
                        self._quotas[name] = len(self._quota_rows)
                        row = np.floor(np.minimum(left, UNLIMITED))
                        row[PODS] = UNLIMITED  # quotas do not count slots
                        self._quota_rows.append(row)
                    lines.append(self._quotas[name])
            found = self._of_queue[queue] = tuple(dict.fromkeys(lines))
        return found

    # ---- what waits --------------------------------------------------------------------------

    def demand(self, job: Job, length: Length) -> Demand | None:
        """Return the room that a job needs to start or, if it has its minimum, to grow by one task.
        Return None if the job needs nothing.
        """
        session, cluster = self.session, self.session.cluster
        least = to_start(job)
        if job.eq_class is not None:
            counts = {job.eq_class.index: least}
            examples = {job.eq_class.index: job.tasks[0]}
        else:
            counts, examples = {}, {}
            for t in session.sort_tasks(session.pending(job))[:least]:
                index = cluster.eq_class[t].index
                counts[index] = counts.get(index, 0) + 1
                examples[index] = t
        parts = tuple(
            Part(
                eq_class=index,
                request=cluster.eq_classes[index].vector,
                asked=cluster.eq_classes[index].asked,
                nodes=self._nodes_for(job, examples[index]),
                count=count,
                is_apart=self._is_apart(cluster.eq_classes[index]),
            )
            for index, count in counts.items()
        )
        if not parts:
            return None
        host = self.calendar.host(job)
        until = None if host is None else self.lines.until(host)
        licenses = () if job.holding_count() else tuple(map(self._license, job.spec.licenses))
        return Demand((*parts, *licenses), length.seconds, self.quotas(job.queue), until)

    def _is_apart(self, eq_class: EquivalenceClass) -> bool:
        """Whether tasks of the class must be on different nodes, as with `sbatch --nodes`. Plans
        ignore all other rules between tasks.
        """
        affinity = eq_class.shape.affinity
        terms = () if affinity is None else affinity.pod_anti_required
        return any(
            meets(eq_class.labels, term.matches) and self._names_nodes(term.topology_key)
            for term in terms
        )

    def _names_nodes(self, key: str) -> bool:
        """Whether the label `key` identifies nodes: all nodes have it, each with a value of its
        own.
        """
        found = self._naming.get(key)
        if found is None:
            values = [labels.get(key) for labels in self.session.cluster.labels]
            found = None not in values and len(set(values)) == len(values)
            self._naming[key] = found
        return found

    def _license(self, asked: tuple[str, int]) -> Part:
        name, count = asked
        return Part(
            eq_class=OF_LICENSE,
            request=self.lines.slots(1),
            asked=[PODS],
            nodes=self.lines.for_license(name),
            count=count,
        )

    def kind(self, job: Job) -> object:
        """Return a value that is equal for jobs that have the same demand on the same nodes; None
        for a job that cannot be compared with others.
        """
        group, eq_class = job.spec, job.eq_class
        if eq_class is None or (group.run_time_s is None and self._learnt is not None):
            return None
        key = self.session.placer.static_key(eq_class, job, job.tasks[0])
        return (
            *(key, job.queue, max(job.shortfall(), 1), group.run_time_s),
            *(group.reservation, group.user if group.reservation else "", group.licenses),
        )

    def _nodes_for(self, job: Job, t: int) -> Flags:
        """Return a mask of the columns that may ever take the task `t`. The task's conditions on
        labels, its tolerations and its reservation decide. Equal masks are the same object.
        """
        placer, name = self.session.placer, job.spec.reservation
        mask = placer.static(placer.ask(t))
        key = (name if self.calendar.host(job) is not None or not name else "-", mask.tobytes())
        found = self._masks.get(key)
        if found is None:
            host = self.calendar.host(job)
            if host is not None:
                found = self.lines.for_guests(mask, host)
            else:  # the reservation is unknown or not open to the job, so no column may take it
                found = self.lines.for_strangers(mask & (not name))
            self._masks[key] = found
        return found


def to_start(job: Job) -> int:
    """Return how many more tasks the job needs to start: those that its minimum lacks. For a job
    that has its minimum, return 1.
    """
    return min(max(job.shortfall(), 1), job.counts[j.PENDING])


def _filling_order(capacity: Counts) -> Indexes:
    """Return the order in which nodes are filled: those with the fewest kinds of devices first,
    then those with the fewest devices, then by name.
    """
    devices = capacity[:, PODS + 1 :]
    return np.lexsort((np.arange(len(capacity)), devices.sum(axis=1), (devices > 0).sum(axis=1)))
