"""Use with a half-life, computed exactly: an amount and the time for which it holds.

After `half_life_s` seconds half of it is left. Work that runs adds `rate` in every second; what it
added at s counts 2^(-(t - s) / H) at t, so that from s to t it adds the integral

    rate * H / ln 2 * (1 - 2^(-(t - s) / H)).

Nothing is sampled: an interval cut into any parts gives the same. A clock that is set back forgets
nothing and adds nothing, since a negative time counts as none.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Use(NamedTuple):
    """An amount of usage (billing units times seconds), as it is at the time `at` (seconds)."""

    amount: float
    at: float

    def left(self, now: float, half_life_s: float) -> float:
        """Return how much of the usage is left at `now`."""
        return self.amount * math.pow(2.0, -max(now - self.at, 0.0) / half_life_s)


def accrued(rate: float, elapsed_s: float, half_life_s: float) -> float:
    """Return the usage, at their end, from work of this rate over the last `elapsed_s` seconds."""
    decay = math.log(2) / half_life_s
    return rate / decay * -math.expm1(-max(elapsed_s, 0.0) * decay)
