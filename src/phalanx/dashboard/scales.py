"""Scales, which map values to positions in plots, and round numbers for axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

DAY_S = 86_400.0
UNITS_S = ((DAY_S, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A scale that maps `low`..`high` to `start`..`end`, with `log` logarithmically."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value. A value outside the range is put on the edge."""
        value = min(max(value, self.low), self.high)
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)


def round_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Return all multiples of a step within `low`..`high`. The step is 1, 2, 5 or 10 times a power
    of ten, and gives at most about `about` ticks.
    """
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def decade_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten within `low`..`high`."""
    return [10.0**n for n in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def time_ticks(low: float, high: float) -> list[float]:
    """Return round times within `low`..`high` seconds, in the largest unit that fits twice into the
    range.
    """
    unit = next((size for size, _ in UNITS_S if high - low >= 2 * size), 1.0)
    return [tick * unit for tick in round_ticks(low / unit, high / unit)]


def time_decades(low: float, high: float) -> list[float]:
    """Return marks for a logarithmic axis of times within `low`..`high` seconds: 1 and 10 of each
    unit, and 100 and 1,000 days.
    """
    units = [size * n for size, _ in reversed(UNITS_S) for n in (1, 10)]
    return [t for t in (*units, 100 * DAY_S, 1000 * DAY_S) if low <= t <= high]


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Return the smallest and the largest finite value, moved apart if they are equal. Without
    values, return 0 and 1.
    """
    known = [v for v in values if math.isfinite(v)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    return (low, high) if high > low else (low, low + 1)


def seconds(value: float) -> str:
    """Return a duration in the largest unit in which it is a whole number: 5400 s is 90 min."""
    for size, unit in UNITS_S:
        if value >= size and value % size == 0:
            return f"{value / size:g} {unit}"
    return f"{value:.3g} s"


def span(value: float) -> str:
    """Return a duration with three significant digits, in the largest unit in which it is at least
    1: 5400 s is 1.5 h.
    """
    size, unit = next((u for u in UNITS_S if value >= u[0]), UNITS_S[-1])
    number = value / size
    return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"


def plain(value: float) -> str:
    """Return a number with at most six significant digits, without trailing zeros."""
    return f"{value:g}"


_STEPS_S = (
    *(60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_592_000),
)


def clock_ticks(begin: float, end: float, about: int = 7) -> list[tuple[float, str]]:
    """Return round times of day within `begin`..`end`, in seconds since the epoch, with their texts
    in UTC. A text is a time of day or, if the steps are days, a date.
    """
    raw = (end - begin) / about
    step = next((one for one in _STEPS_S if one >= raw), _STEPS_S[-1])
    first = math.ceil(begin / step)
    form = "%d %b" if step >= DAY_S else "%H:%M"
    return [
        (float(n * step), datetime.fromtimestamp(n * step, UTC).strftime(form))
        for n in range(first, math.floor(end / step) + 1)
    ]
