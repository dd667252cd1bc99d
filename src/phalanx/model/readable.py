"""Amounts, sizes and times for display."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def amount(value: float) -> str:
    """Return a number without needless decimals."""
    return f"{round(value, 4):g}"


def size(value: float) -> str:
    """Return bytes in the largest unit of which there is at least one: 1.5 GiB."""
    step = 0
    while value >= _STEP and step < len(_UNITS) - 1:
        value, step = value / _STEP, step + 1
    return f"{value:.1f} {_UNITS[step]}" if step else f"{value:.0f} B"


def age(seconds: float) -> str:
    """Return a length of time in one unit: 5s, 3m, 2h, 4d."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def time_ahead(seconds: float) -> str:
    """Return a time from now: seconds below ten minutes, then as `age`."""
    return f"{max(seconds, 0):.0f} s" if seconds < 600 else age(seconds)
