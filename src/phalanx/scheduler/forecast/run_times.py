"""How long work runs: at most its limit, or as long as the same work ran before."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable

from msgspec.structs import replace

from phalanx.scheduler.cycle.specs import PodGroupSpec, Snapshot
from phalanx.scheduler.forecast.track_record import TrackRecord

EARLY, LATE = 0.1, 0.9
"""Between these parts of all past runs lie 80 % of them."""
MIDDLE = 0.5
"""A part above it is rounded up, and one below it down: two of them hold what they say."""
RUNS = 64
"""So many past runs of one kind of work are remembered, the last ones."""
KINDS = 1_000
"""So many kinds of work are remembered, those that ended last."""


class PastRuns:
    """Run times in seconds of work that has ended, of one kind."""

    def __init__(self) -> None:
        self._by_age: list[float] = []
        self._ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, run_time_s: float) -> None:
        """Such work has run so long; of more than RUNS the oldest is forgotten."""
        if len(self._by_age) == RUNS:
            self._ordered.remove(self._by_age.pop(0))
        self._by_age.append(run_time_s)
        insort(self._ordered, run_time_s)

    def quantile(self, part: float, ran_s: float = 0.0) -> float | None:
        """So long, or shorter, runs this part of those to come that run longer than `ran_s`; None
        if none did. Of n past runs it is the (n + 1) x part-th: the next one falls with equal odds
        between any two of them."""
        begin = bisect_right(self._ordered, ran_s)
        count = len(self._ordered) - begin
        if not count:
            return None
        rank = (count + 1) * part
        at = math.ceil(rank) if part > MIDDLE else math.floor(rank)
        return self._ordered[begin + min(max(at, 1), count) - 1]


KindOf = Callable[[PodGroupSpec], bytes | None]


class LearntRunTimes:
    """Past runs by kind of work: `kind_of` says of which kind a podgroup is; None: of none."""

    def __init__(self, kind_of: KindOf) -> None:
        self._kind_of = kind_of
        self._runs: dict[bytes, PastRuns] = {}
        self.told = TrackRecord()
        """What was told of starts that rest on these, and how it turned out."""

    def add(self, kind: bytes, run_time_s: float) -> None:
        """Work of this kind has ended well, so long after its start."""
        runs = self._runs.pop(kind, None) or PastRuns()
        self._runs[kind] = runs  # the last of all
        runs.add(run_time_s)
        if len(self._runs) > KINDS:
            del self._runs[next(iter(self._runs))]

    def of(self, group: PodGroupSpec) -> PastRuns | None:
        """Past runs of such work; None if there were none."""
        kind = self._kind_of(group)
        return None if kind is None else self._runs.get(kind)


def with_past_runs(snapshot: Snapshot, learnt: LearntRunTimes) -> Snapshot:
    """The snapshot with a run time of each podgroup that tells none and has past runs: what nine in
    ten took of those that ran as long as it has. For a reader that knows no past runs."""

    def told(group: PodGroupSpec) -> PodGroupSpec:
        past = learnt.of(group) if group.run_time_s is None else None
        if past is None:
            return group
        ran_s = 0.0 if group.started is None else max(snapshot.now - group.started, 0.0)
        return replace(group, run_time_s=past.quantile(LATE, ran_s))

    return replace(snapshot, podgroups=tuple(map(told, snapshot.podgroups)))
