"""Readers of the arguments of plugins and actions, which YAML may give as numbers, flags or
text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

Arguments = Mapping[str, Any]
MAX_DURATION = 100
"""The largest number of characters in the text of a duration."""
LONGEST_S = 2.0**63 / 1e9
"""The longest duration that Volcano can read, in seconds: 292 years."""
_TRUE, _FALSE = frozenset({"true", "1", "t"}), frozenset({"false", "0", "f"})
_POWERS = {"": 1.0, "m": 1e-3, "k": 1e3} | {
    letter + suffix: float(base**power)
    for power, letter in enumerate("KMGTPE", 1)
    for suffix, base in (("i", 1024), ("", 1000))
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "ns": 1e-9}


def number(arguments: Arguments, key: str, default: float) -> float:
    """Return the number at `key`. As in Volcano, a value that is not a number is replaced by the
    default.
    """
    value = arguments.get(key)
    if isinstance(value, bool) or value is None:
        return default
    try:
        given = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return given if math.isfinite(given) else default


def whole(arguments: Arguments, key: str, default: int) -> int:
    return int(number(arguments, key, default))


def flag(arguments: Arguments, key: str, default: bool) -> bool:
    value = arguments.get(key)
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else default


def within(arguments: Arguments, key: str, default: float, low: float, high: float) -> float:
    """Return the number at `key`; a number out of bounds is replaced by the default."""
    given = number(arguments, key, default)
    return given if low <= given <= high else default


def table(arguments: Arguments, key: str) -> Arguments:
    """Return the mapping at `key`; an empty mapping if it is missing."""
    given = arguments.get(key)
    return given if isinstance(given, dict) else {}


def names(arguments: Arguments, key: str) -> list[str]:
    """Return the names at `key`, a text with commas between the names."""
    return [n.strip() for n in text(arguments, key).split(",") if n.strip()]


def text(arguments: Arguments, key: str, default: str = "") -> str:
    value = arguments.get(key)
    return default if value is None else str(value)


def seconds(written: Any) -> float | None:
    """Return the seconds of "1h30m" or "90s".

    Returns None for any other value. Plain numbers, zero and negative times are not durations here.
    """
    if not isinstance(written, str) or not written:
        return None
    written = written.replace("\u00b5s", "us").replace("\u03bcs", "us")
    # for longer texts, the search would take too long, as its time is quadratic
    if len(written) > MAX_DURATION:
        return None
    parts = re.findall(r"([0-9]{1,15}\.?[0-9]*|\.[0-9]+)(ms|us|ns|h|m|s)", written)
    if "".join(n + u for n, u in parts) != written:
        return None
    total = sum(float(n) * _UNITS[u] for n, u in parts)
    return total if 0 < total <= LONGEST_S else None


def quantity(written: str | float) -> float | None:
    """Return the value of Kubernetes' "500m", "8Gi" or a plain number; None for anything else."""
    found = re.fullmatch(
        r"([0-9]{1,18}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})([mk]|[KMGTPE]i?)?", str(written).strip()
    )
    return float(found[1]) * _POWERS[found[2] or ""] if found else None


def clock_minutes(written: str) -> int | None:
    """Return the number of minutes after midnight that "HH:MM" means; None for any other text."""
    found = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", written.strip())
    if not found:
        return None
    hours, minutes = int(found[1]), int(found[2])
    return hours * 60 + minutes if hours < 24 and minutes < 60 else None


def count(written: str) -> int | None:
    """Return the number that a text of digits means; None for any other text."""
    is_plain = written.isascii() and written.isdigit() and len(written) <= 15
    return int(written) if is_plain else None


def part_of(written: str, whole_count: int) -> int:
    """Return the number that a text stands for: 3 for "3", and for "40%" that part of
    `whole_count`, rounded up. Any other text stands for 0.
    """
    found = re.fullmatch(r"([0-9]{1,15})(%?)", written.strip())
    if not found:
        return 0
    n = int(found[1])
    return -(-n * whole_count // 100) if found[2] else n
