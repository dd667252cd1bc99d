"""Usage with a half-life, computed exactly. It is stored as an amount and the time at which it had
this amount.

After `half_life_s` seconds, half of the usage is left. Running work adds `rate` in every second.
One unit added at time s counts 2^(-(t - s) / H) at time t, so work that runs from s to t adds the
integral

    rate * H / ln 2 * (1 - 2^(-(t - s) / H)).

Nothing is sampled, so the result does not depend on how an interval is divided. If a clock is set
back, usage neither fades nor grows, because negative time counts as zero.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Use(NamedTuple):
    """An amount of usage (billing units times seconds), as it counted at the time `at`
    (seconds).
    """

    amount: float
    at: float

    def left(self, now: float, half_life_s: float) -> float:
        """Return how much of the usage is left at `now`."""
        return self.amount * math.pow(2.0, -max(now - self.at, 0.0) / half_life_s)


def accrued(rate: float, elapsed_s: float, half_life_s: float) -> float:
    """Return the usage that work with this rate added in the last `elapsed_s` seconds, as it counts
    now.
    """
    decay = math.log(2) / half_life_s
    return rate / decay * -math.expm1(-max(elapsed_s, 0.0) * decay)
