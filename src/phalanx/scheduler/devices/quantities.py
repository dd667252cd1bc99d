"""Exact amounts: every quantity is a whole number of units of 1/10000, so that sums have no
rounding errors.
"""

from __future__ import annotations

import math

from phalanx.model.options import LARGEST_AMOUNT

SCALE = 10_000
"""The number of units in one whole: 1 CPU is 10,000 units, and so is one byte of `memory`."""

_DUST = 1e-6
"""A deviation below this fraction of a unit counts as an error of binary rounding. The fraction is
far above the errors of doubles in usual requests, and far below any amount that a user could mean.
"""


def to_units(x: float | int) -> int:
    """Return the whole units of 1/10000 in `x`; smaller parts are cut off.

    The decimal number that the user wrote decides: 0.57 is 5700 units, although its double times
    10,000 is slightly less. Likewise, 0.3 - 0.1 is 2000 units.

    Raises ValueError for NaN, negative amounts, and amounts that do not fit into 64 bits.
    """
    if x > LARGEST_AMOUNT:
        raise ValueError(f"a resource amount must be at most {LARGEST_AMOUNT:g}, not {x:g}")
    if isinstance(x, int):
        if x < 0:
            raise ValueError(f"a resource amount must be 0 or more, not {x}")
        return x * SCALE
    x = float(x)
    if not math.isfinite(x):
        raise ValueError(f"a resource amount must be a finite number, not {x}")
    if x < 0:
        raise ValueError(f"a resource amount must be 0 or more, not {x}")
    if x.is_integer():  # this includes every double from 2**52 on, whose product would be inexact
        return int(x) * SCALE
    scaled = x * SCALE
    dust = max(_DUST, math.ulp(scaled) * 2)
    return math.floor(scaled + dust)


def from_units(units: int) -> float:
    """Return the amount that this number of units of 1/10000 makes. Negative units give a negative
    amount.
    """
    return units / SCALE
