"""How long work runs: at most its limit, or as long as the same work ran before."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable

from msgspec.structs import replace

from phalanx.scheduler.cycle.specs import PodGroupSpec, Snapshot
from phalanx.scheduler.forecast.track_record import TrackRecord

EARLY, LATE = 0.1, 0.9
"""The quantiles between which 80 % of all past runs lie."""
MIDDLE = 0.5
"""Quantiles above it are rounded up, those below it down, so that EARLY and LATE hold."""
RUNS = 64
"""Past runs that are remembered of one kind of work, the last ones."""
KINDS = 1_000
"""Kinds of work that are remembered, those that ended last."""


class PastRuns:
    """Run times in seconds of ended work of one kind."""

    def __init__(self) -> None:
        self._by_age: list[float] = []
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, run_time_s: float) -> None:
        """Add a run time; beyond RUNS the oldest one is forgotten."""
        if len(self._by_age) == RUNS:
            self._ordered.remove(self._by_age.pop(0))
        self._by_age.append(run_time_s)
        insort(self._ordered, run_time_s)

    def quantile(self, part: float, ran_s: float = 0.0) -> float | None:
        """Return the run time that this part of future runs does not exceed, if longer than
        `ran_s`.

        None if no past run was longer. For n past runs it is the (n + 1) x part-th: the next run
        falls with equal odds between any two of them.
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
    """Past runs by kind of work; `kind_of` returns a podgroup's kind, or None."""

    def __init__(self, kind_of: KindOf) -> None:
        self._kind_of = kind_of
        self._runs: dict[bytes, PastRuns] = {}
        self.told = TrackRecord()
        """The record of reported starts that rest on these run times, and how they turned out."""

    def add(self, kind: bytes, run_time_s: float) -> None:
        """Add the run time of work of this kind that has ended well."""
        runs = self._runs.pop(kind, None) or PastRuns()
        self._runs[kind] = runs  # moves the kind to the end
        runs.add(run_time_s)
        if len(self._runs) > KINDS:
            del self._runs[next(iter(self._runs))]

    def of(self, group: PodGroupSpec) -> PastRuns | None:
        """Return past runs of such work; None if there were none."""
        kind = self._kind_of(group)
        return None if kind is None else self._runs.get(kind)


def with_past_runs(snapshot: Snapshot, learnt: LearntRunTimes) -> Snapshot:
    """Return the snapshot with learnt run times, for readers that know no past runs.

    A podgroup without a run time gets the length that nine in ten of the past runs that ran as long
    as it has did not exceed.
    """

    def told(group: PodGroupSpec) -> PodGroupSpec:
        past = learnt.of(group) if group.run_time_s is None else None
        if past is None:
            return group
        ran_s = 0.0 if group.started is None else max(snapshot.now - group.started, 0.0)
        return replace(group, run_time_s=past.quantile(LATE, ran_s))

    return replace(snapshot, podgroups=tuple(map(told, snapshot.podgroups)))
