"""When waiting work can start, from when running work will have ended.

Run times are what podgroups declare (`run_time_s`, as `plugins.reservation.learnt` makes them from
past runs). Waiting podgroups are taken in their order, each at the earliest end of running work at
which its minimum finds room on nodes and in its queue, none before the one ahead of it. So a
forecast is late rather than early, as long as run times hold: others may fill in sooner.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec
import numpy as np

from phalanx.batch import jobs as j
from phalanx.batch.amounts import Counts
from phalanx.batch.equivalence_class import EquivalenceClass
from phalanx.batch.jobs import Job
from phalanx.batch.session import Session

MOST = 200
"""So many podgroups are looked at, the first in order."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup's expected start: `at_s` as the snapshot's `now`, `in_s` from now on, and how many
    tasks that run now, or will by then, end first."""

    at_s: float
    in_s: float
    after_tasks: int


def known_ends(session: Session) -> list[tuple[float, int]]:
    """(end, task) of each running task whose podgroup tells its run time; none is in the past."""
    cluster = session.cluster
    out: list[tuple[float, int]] = []
    for t, status in enumerate(cluster.status):
        if status != j.RUNNING or cluster.job_of[t] < 0:
            continue
        spec = session.job(t).spec
        started = cluster.started[t]
        started = spec.started if started is None else started
        if spec.run_time_s is not None and started is not None:
            out.append((max(started + spec.run_time_s, session.now), t))
    return sorted(out)


def expected_starts(session: Session) -> dict[str, Forecast]:
    """A forecast for each podgroup that waits and for which one can be made. The session is used
    up: its plugins are notified of work that ends and starts.

    There is none for gangs that a network domain binds, and where what is in the way, on nodes or
    in a quota, is held by work whose end nobody knows.
    """
    outlook = Outlook(session)
    if not outlook.ends:
        return {}
    out: dict[str, Forecast] = {}
    gone, now = 0, session.now
    for job in sorted(filter(_waits, session.cluster.jobs), key=session.job_key)[:MOST]:
        if not session.job_valid(job):
            continue
        found = outlook.start(job, now)
        if found is not None:
            now, ended = found
            gone += ended
            out[job.uid] = Forecast(at_s=now, in_s=now - session.now, after_tasks=gone)
    return out


def _waits(job: Job) -> bool:
    return job.counts[j.PENDING] > 0 and not job.is_pipelined() and not job.has_topology()


class Outlook:
    """What is free, and what still holds room and until when, as time goes on."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._free = session.cluster.future.copy()
        leaving = known_ends(session)
        for t in session.binds:
            length = session.job(t).spec.run_time_s
            if length is not None:
                leaving.append((session.now + length, t))
        self._node_of = {t: session.cluster.node_of[t] for _, t in leaving}
        self.ends = leaving
        heapq.heapify(self.ends)

    def start(self, job: Job, now: float) -> tuple[float, int] | None:
        """The earliest time, from `now` on, at which what the job's minimum lacks finds room, and
        how many tasks end until then. It is then counted as started; None changes nothing."""
        session = self._session
        tasks = session.sort_tasks(session.pending(job))[: max(job.shortfall(), 1)]
        by_class: dict[int, list[int]] = {}
        for t in tasks:
            by_class.setdefault(session.cluster.eq_class[t].index, []).append(t)
        parts = list(by_class.values())
        ended: list[tuple[float, int]] = []
        while True:
            nodes = self._places(job, parts)
            if nodes is not None:
                break
            if not self.ends:
                for end in ended:
                    self._tell(end[1], self._node_of[end[1]], 1)
                    heapq.heappush(self.ends, end)
                return None
            now = max(now, self.ends[0][0])
            while self.ends and self.ends[0][0] <= now:
                ended.append(heapq.heappop(self.ends))
                self._tell(ended[-1][1], self._node_of[ended[-1][1]], -1)
        for t, node in nodes.items():
            self._tell(t, node, 1)
            if job.spec.run_time_s is not None:
                self._node_of[t] = node
                heapq.heappush(self.ends, (now + job.spec.run_time_s, t))
        return now, len(ended)

    def _places(self, job: Job, parts: Sequence[list[int]]) -> dict[int, int] | None:
        """A node for each task, the roomiest first; None if the queue or the nodes lack room."""
        session, cluster = self._session, self._session.cluster
        if cluster.queues[job.queue].state != "Open" or session.overused(job.queue):
            return None
        left = self._free.copy()
        out: dict[int, int] = {}
        for alike in parts:
            ask = session.placer.ask(alike[0])
            if session.room(job, ask.eq_class, len(alike)) < len(alike):
                return None
            fits = np.where(session.placer.answers(ask).static, rooms(left, ask.eq_class), 0)
            fits = np.minimum(fits, len(alike))
            if int(fits.sum()) < len(alike):
                return None
            homes = np.repeat(np.argsort(-fits, kind="stable"), np.sort(fits)[::-1])
            for t, node in zip(alike, homes.tolist(), strict=False):
                left[node] -= ask.eq_class.request
                out[t] = node
        return out

    def _tell(self, t: int, node: int, sign: int) -> None:
        cluster = self._session.cluster
        eq_class = cluster.eq_class[t]
        self._free[node] -= eq_class.request * sign
        self._session.changed(self._session.job(t), eq_class, [t], [node], sign)


def rooms(free: Counts, eq_class: EquivalenceClass) -> Counts:
    """How many tasks of the class each row has room for."""
    asked = eq_class.asked
    times: Counts = np.min(np.maximum(free[:, asked] // eq_class.request[asked], 0), axis=1)
    return times
