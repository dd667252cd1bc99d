"""Amounts, sizes and times for display."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def amount(value: float) -> str:
    """Return a number without needless decimals."""
    return f"{round(value, 4):g}"


def size(value: float) -> str:
    """Return a number of bytes as text, in the largest unit in which it is at least 1, such as `1.5
    GiB`.
    """
    step = 0
    while value >= _STEP and step < len(_UNITS) - 1:
        value, step = value / _STEP, step + 1
    return f"{value:.1f} {_UNITS[step]}" if step else f"{value:.0f} B"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers in ascending order as text, with successive numbers as a range: 0-3,6."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


_LENGTHS_S = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, rounded down: 12s, 1h53m, 3d4h. Below one second
    it is in tenths.

    `manifests.times` reads this form, and `page.js` writes the same form on the page.
    """
    if seconds < 1:
        tenths = int(max(seconds, 0) * 10)
        return f"0.{tenths}s" if tenths else "0s"
    left = int(seconds)
    parts: list[str] = []
    for unit, length in _LENGTHS_S:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])


def length_text(length_s: float) -> str:
    """Return a duration exactly, in all units that it needs, in the form that `manifests.times`
    reads: 1h30m, 45s, 0.5s.
    """
    whole, part = int(length_s), length_s - int(length_s)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    written = f"{seconds + part:f}".rstrip("0").rstrip(".")
    parts = (f"{days}d", f"{hours}h", f"{minutes}m", f"{written}s")
    return "".join(one for one in parts if one[:-1] != "0") or "0s"
