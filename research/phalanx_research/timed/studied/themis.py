"""Themis: the job whose finish time suffers most from sharing the cluster comes first.

The policy follows Themis (Mahajan et al., NSDI 2020), as in Muri's simulator. A job's rho is the
quotient of two times, each from the job's submission to its finish: the time if the job has its
GPUs for a fraction x of the time, and the time if all jobs get equal fractions of the cluster. The
fractions are chosen so that the largest rho is as small as possible. A lease lasts until the next
event. Jobs get leases in the order of fraction divided by run time so far, the largest first. Jobs
that have not run yet come before all others. If several choices of fractions give the same largest
rho, the next largest rho is minimized, and so on. Muri's simulator takes the choice that its
solver, an interior point method, returns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from phalanx_research.timed.studied.live import Decision, Live, Terms
from phalanx_research.timed.studied.rooms import Rooms
from phalanx_research.timed.workload import Job

Vector = npt.NDArray[np.float64]
STEPS = 100
"""The number of bisections after which a result is as precise as floating point allows."""
UNRUN = 1e9
"""The factor for a job that has not run, in place of a division by its run time."""


class Themis:
    """The policy Themis. `gpus` has the number of GPUs of each machine.

    If a trace counts iterations, the time under equal fractions is counted in iterations, as in
    Muri's simulator. Then rho is seconds per iteration, and a job with short iterations counts as
    less disadvantaged.
    """

    def __init__(self, name: str, gpus: Sequence[int], jobs: Sequence[Job]) -> None:
        del name, jobs
        self._machines = gpus
        self._before: dict[Live, tuple[float, float]] = {}
        """For each job: the work left, and the fraction of the cluster under equal fractions, at
        the last event.
        """
        self._alone: dict[Live, float] = {}
        """For each job: the time that the work done so far would have taken under equal fractions.
        """
        self._owed: dict[Live, float] = {}
        """The run time that each job should have got by its assigned parts."""
        self._last = 0.0

    def decide(self, live: list[Live], now: float) -> Decision:
        """Decide which jobs run. The most disadvantaged jobs come first."""
        if live:
            self._put_in_order(live, now)
        self._last = now
        rooms = Rooms(self._machines)
        terms = {
            one: Terms(pace=1.0, overhead_s=one.job.overhead_s)
            for one in live
            if rooms.take(one.gpus)
        }
        # Muri's simulator chooses machines once more here, larger jobs first; equally large jobs
        # keep their order.
        live.sort(key=lambda one: one.gpus, reverse=True)
        return Decision(terms=terms, held=rooms.held())

    def leave(self, one: Live) -> None:
        self._before.pop(one, None)
        self._alone.pop(one, None)
        self._owed.pop(one, None)

    def _put_in_order(self, live: list[Live], now: float) -> None:
        gpus = np.array([one.gpus for one in live], dtype=np.float64)
        equal = np.minimum(1.0, math.ceil(sum(self._machines) / len(live)) / gpus)
        alone = np.array([self._alone_s(one, part) for one, part in zip(live, equal, strict=True)])
        waited = np.array([now - one.job.submit_s for one in live])
        left = np.array([one.left_s for one in live])
        parts = fair_parts(waited / alone, left / alone, gpus, float(sum(self._machines)))
        rank: dict[Live, tuple[float, float, float]] = {}
        for one, part in zip(live, parts.tolist(), strict=True):
            first = part / one.attained_s if one.attained_s else part * UNRUN
            owed = self._owed.get(one, 0.0)
            rank[one] = (first, owed - one.attained_s, part)
            self._owed[one] = owed + part * (now - self._last)
        live.sort(key=rank.__getitem__, reverse=True)

    def _alone_s(self, one: Live, part: float) -> float:
        """Return the time that the job would take from its submission to its end under equal
        fractions.
        """
        unit_s = 1.0 if one.job.training is None else one.job.training.iteration_s
        left = one.left_s / unit_s
        done = self._alone.setdefault(one, 0.0)
        if one in self._before:
            left_before, part_before = self._before[one]
            done = self._alone[one] = done + (left_before - left) / part_before
        self._before[one] = (left, part)
        return done + left / part


def fair_parts(a: Vector, b: Vector, gpus: Vector, room: float) -> Vector:
    """Return the parts x, 0 < x <= 1, with gpus @ x <= room, that minimize the largest a + b / x.

    Among choices with the same largest value, the next largest value is minimized, and so on.
    """
    parts = np.ones_like(a)
    free = np.ones(len(a), dtype=np.bool_)
    while free.any() and gpus[free].sum() > room:
        worst = _level(a[free], b[free], gpus[free], room)
        bound = free & (a + b >= worst)
        if not bound.any():
            parts[free] = b[free] / (worst - a[free])
            break
        # Even all the time does not lower the rho of the worst jobs: they get all of it, and the
        # others share the rest.
        worst = (a + b)[bound].max()
        bound &= a + b >= worst
        room -= float(gpus[bound].sum())
        free &= ~bound
    return parts


def _level(a: Vector, b: Vector, gpus: Vector, room: float) -> float:
    """Return, by bisection, the rho for which the parts b / (rho - a) use all the room."""
    low = float(a.max())
    high = low + float((gpus * b).sum()) / room + float(b.max())
    for _ in range(STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        wanted = float((gpus * b / (middle - a)).sum())
        low, high = (middle, high) if wanted > room else (low, middle)
    return high
