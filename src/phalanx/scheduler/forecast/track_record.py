"""The record of reported starts with their accuracy, and the margins that are computed from it.

A start is reported as an interval between two times. Past runs show how long running work will
take, but not which work will be submitted later or start first, so intervals computed from them
alone would be too narrow. Therefore each report is kept until the work starts. Then the distance
between the start and the interval is recorded, as a fraction of the expected wait. Later intervals
are widened accordingly.

This is conformalized quantile regression (Romano, Patterson and Candes, 2019): with n past starts,
the margin is the ceil((n + 1) × 0.9)th smallest distance. Then nine in ten future starts are within
the margin for any distribution, if future starts resemble past ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

PART = 0.9
"""The fraction of starts that should not be earlier than the first reported time. The same fraction
should not be later than the second.
"""
KEPT = 256
"""The number of starts that are remembered. The oldest are forgotten."""
ENOUGH = 9
"""The least number of starts from which margins are computed: with fewer starts n, the rank ceil((n
+ 1) × 0.9) of the margin would exceed n.
"""
MOST_ESTIMATES = 10_000
"""The largest number of waiting podgroups whose first report is remembered."""
SHORTEST_S = 10.0
"""The least expected wait in seconds. A shorter wait counts as this long, because a distance as a
fraction of a very short wait means nothing.
"""


class StartEstimate(NamedTuple):
    """An estimate of a start: the time at which it was made, and the two times that follow from run
    times alone.
    """

    now: float
    earliest_s: float
    at_s: float


class TrackRecord:
    """The reports about waiting podgroups, and their accuracy for podgroups that have started."""

    def __init__(self) -> None:
        self._estimates: dict[str, StartEstimate] = {}
        self._early: list[float] = []
        self._late: list[float] = []
        self._margins: tuple[float, float] | None = None
        """The margins before the first and after the second reported time; None if they must be
        computed again because a podgroup has started.
        """

    def __len__(self) -> int:
        """Return the number of remembered starts."""
        return len(self._late)

    def report(self, uid: str, estimate: StartEstimate) -> tuple[float, float]:
        """Return the two times to report for a waiting podgroup: the times that follow from run
        times, widened by the margins. The first estimate of each podgroup is kept.
        """
        if uid not in self._estimates:
            if len(self._estimates) >= MOST_ESTIMATES:
                del self._estimates[next(iter(self._estimates))]
            self._estimates[uid] = estimate
        if len(self) < ENOUGH:
            return estimate.earliest_s, estimate.at_s
        if self._margins is None:
            self._margins = _margin(self._early), _margin(self._late)
        before, after = self._margins
        wait_s = _wait_s(estimate)
        earliest_s = max(estimate.now, estimate.earliest_s - before * wait_s)
        return earliest_s, estimate.at_s + after * wait_s

    def started(self, uid: str, now: float) -> None:
        """Record that a waiting podgroup has started."""
        estimate = self._estimates.pop(uid, None)
        if estimate is None:
            return
        wait_s = _wait_s(estimate)
        for known, outside_s in (
            (self._early, estimate.earliest_s - now),
            (self._late, now - estimate.at_s),
        ):
            known.append(outside_s / wait_s)
            del known[:-KEPT]
        self._margins = None

    def clock_stepped(self, step_s: float) -> None:
        """Shift all reports after the clock was stepped by this many seconds, so that they stay as
        far in the future as before.
        """
        self._estimates = {
            uid: StartEstimate(*(moment + step_s for moment in estimate))
            for uid, estimate in self._estimates.items()
        }

    def forget(self, uid: str) -> None:
        """Forget a podgroup that will not start."""
        self._estimates.pop(uid, None)


def _wait_s(estimate: StartEstimate) -> float:
    return max(estimate.at_s - estimate.now, SHORTEST_S)


def _margin(outside: list[float]) -> float:
    """Return the margin that nine in ten future starts do not exceed. It is at least 0, so it never
    narrows the interval that follows from run times.
    """
    at = math.ceil((len(outside) + 1) * PART) - 1
    return max(0.0, sorted(outside)[at])
