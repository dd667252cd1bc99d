"""Expected run times of work: its time limit, or the run times of past runs of the same work."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable

from msgspec.structs import replace

from phalanx.scheduler.cycle.specs import PodGroupSpec, Snapshot
from phalanx.scheduler.forecast.track_record import TrackRecord

EARLY, LATE = 0.1, 0.9
"""Two quantiles of run times. 80 % of all past runs lie between them."""
MIDDLE = 0.5
"""The median. Quantiles above it are rounded up to the next past run, and quantiles below it down,
so that the interval from EARLY to LATE is not too narrow.
"""
RUNS = 64
"""The number of past runs that are remembered for each kind of work. The oldest are forgotten."""
KINDS = 1_000
"""The number of kinds of work that are remembered: those whose work ended most recently."""


class PastRuns:
    """Run times in seconds of ended work of one kind."""

    def __init__(self) -> None:
        self._by_age: list[float] = []
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, run_time_s: float) -> None:
        """Add a run time. If there are more than RUNS, the oldest is forgotten."""
        if len(self._by_age) == RUNS:
            self._ordered.remove(self._by_age.pop(0))
        self._by_age.append(run_time_s)
        insort(self._ordered, run_time_s)

    def quantile(self, part: float, ran_s: float = 0.0) -> float | None:
        """Return the run time that the fraction `part` of future runs does not exceed, for a run
        that has already lasted `ran_s` seconds; None if no past run was longer than `ran_s`.

        If n past runs were longer, they are sorted by length, and the one at position (n + 1) ×
        `part` is taken. The reason is that the next run is equally likely to fall into each of the
        gaps between them.
        """
        begin = bisect_right(self._ordered, ran_s)
        count = len(self._ordered) - begin
        if not count:
            return None
        rank = (count + 1) * part
        at = math.ceil(rank) if part > MIDDLE else math.floor(rank)
        return self._ordered[begin + min(max(at, 1), count) - 1]


KindOf = Callable[[PodGroupSpec], bytes | None]


class LearntRunTimes:
    """Past runs by kind of work. `kind_of` returns the kind of a podgroup; None if its runs are not
    learnt.
    """

    def __init__(self, kind_of: KindOf) -> None:
        self._kind_of = kind_of
        self._runs: dict[bytes, PastRuns] = {}
        self.track_record = TrackRecord()
        """The starts that were reported from these run times, and how accurate these reports
        were.
        """

    def add(self, kind: bytes, run_time_s: float) -> None:
        """Add the run time of work of this kind that ended successfully."""
        runs = self._runs.pop(kind, None) or PastRuns()
        self._runs[kind] = runs  # moves the kind to the end, because it is the most recent one
        runs.add(run_time_s)
        if len(self._runs) > KINDS:
            del self._runs[next(iter(self._runs))]

    def of(self, group: PodGroupSpec) -> PastRuns | None:
        """Return the past runs of this kind of work; None if no such run has ended."""
        kind = self._kind_of(group)
        return None if kind is None else self._runs.get(kind)


def with_past_runs(snapshot: Snapshot, learnt: LearntRunTimes) -> Snapshot:
    """Return the snapshot with the learnt run times filled in, for readers that know no past runs.

    A podgroup without a run time gets the length that nine in ten of its past runs did not exceed.
    Only past runs that lasted longer than the podgroup has run so far are counted.
    """

    def filled_in(group: PodGroupSpec) -> PodGroupSpec:
        past = learnt.of(group) if group.run_time_s is None else None
        if past is None:
            return group
        ran_s = 0.0 if group.started is None else max(snapshot.now - group.started, 0.0)
        return replace(group, run_time_s=past.quantile(LATE, ran_s))

    return replace(snapshot, podgroups=tuple(map(filled_in, snapshot.podgroups)))
