"""The first gang that cannot start yet keeps the nodes it will get; others fill in around it.

EASY backfill, as Slurm does it. From declared run times follows when enough running tasks will have
ended for the gang: its shadow time. Until then others may use its nodes if they end before it, or
if what they take is not needed at that time. Where run times are unknown nothing is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from phalanx.batch.accepted import WHOLE, Accepted
from phalanx.batch.amounts import Counts, Flags
from phalanx.batch.arguments import Arguments, whole
from phalanx.batch.equivalence_class import EquivalenceClass
from phalanx.batch.forecast import known_ends, rooms
from phalanx.batch.jobs import Job
from phalanx.batch.rows import Ask, Filter, Rows, touched
from phalanx.batch.session import Session


def learnt(past_s: Sequence[float], quantile: float = 0.9) -> float | None:
    """A run time in seconds to declare for work that has run before; None if it never has."""
    if not past_s:
        return None
    ordered = sorted(past_s)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]


class Reservation:
    """`minimum` 2: gangs of fewer tasks get no reservation. Podgroups tell their `run_time_s`."""

    name = "reservation"
    accepts: ClassVar[Accepted] = {"minimum": WHOLE}

    def __init__(self, arguments: Arguments) -> None:
        self._least = whole(arguments, "minimum", 2)

    def open(self, session: Session) -> None:
        self._session = session
        self._made: Booking | None = None
        self._looked = False
        session.add(
            "filter",
            self.name,
            Filter(reason="reserved", passes=self._passes, changes=touched, scope="job"),
        )

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        booking = self._booking()
        good = np.ones(len(rows), dtype=np.bool_)
        if booking is None or ask.job is booking.job:
            return good
        length = ask.job.spec.run_time_s
        if length is not None and self._session.now + length <= booking.shadow_time:
            return good
        for r in ask.eq_class.asked:
            left = rows.free(r) + booking.freed[rows.index, r] - booking.kept[rows.index, r]
            good &= left >= ask.eq_class.request[r]
        return np.asarray(good | ~booking.held[rows.index], dtype=np.bool_)

    def _booking(self) -> Booking | None:
        if not self._looked:
            self._looked = True
            self._made = self._book()
        return self._made

    def _book(self) -> Booking | None:
        session, cluster = self._session, self._session.cluster
        for job in sorted(cluster.jobs, key=session.job_key):
            if job.is_pending() or job.is_ready() or job.min_available < self._least:
                continue
            if not session.job_valid(job):
                continue
            pending = session.sort_tasks(session.pending(job))
            if not pending:
                continue
            need, eq_class = job.shortfall(), cluster.eq_class[pending[0]]
            if int(rooms(cluster.future, eq_class).sum()) < need:
                return self._when(job, eq_class, need)
        return None

    def _when(self, job: Job, eq_class: EquivalenceClass, need: int) -> Booking | None:
        """The earliest end of running work after which the gang fits."""
        session, cluster = self._session, self._session.cluster
        freed = np.zeros_like(cluster.future)
        fits = rooms(cluster.future, eq_class)
        total = int(fits.sum())
        for end, t in known_ends(session):
            node = cluster.node_of[t]
            freed[node] += cluster.eq_class[t].request
            now = int(rooms((cluster.future[node] + freed[node])[None], eq_class)[0])
            total += now - int(fits[node])
            fits[node] = now
            if total >= need:
                return Booking(job, end, eq_class, need, fits, freed)
        return None


class Booking:
    """Which nodes are kept for a job from when on, and how much of each."""

    def __init__(
        self, job: Job, shadow_time: float, eq_class: EquivalenceClass, need: int, *columns: Counts
    ) -> None:
        fits, self.freed = columns
        self.job = job
        self.shadow_time = shadow_time
        self.kept = np.zeros_like(self.freed)
        for node in np.argsort(-fits, kind="stable"):
            take = min(need, int(fits[node]))
            if take <= 0:
                break
            self.kept[node] = eq_class.request * take
            need -= take
        self.held: Flags = np.any(self.kept, axis=1)
