"""Converts sizes to the unit of `sacct --units`."""

from __future__ import annotations

import re

from phalanx.adapters.slurm.options import OptionError

UNITS = "KMGTP"
_SIZE = re.compile(r"\b([0-9]+(?:\.[0-9]+)?)([KMGTP])\b")


def in_units(text: str, unit: str) -> str:
    """Return a text with its sizes, such as `100M` and `mem=300M`, converted to `unit`.

    Sizes that are not whole have two decimals. Raises OptionError for an unknown unit.
    """
    if unit.upper() not in UNITS or len(unit) != 1:
        raise OptionError(f"--units={unit}: it takes one of {', '.join(UNITS)}")

    def converted(match: re.Match[str]) -> str:
        power = UNITS.index(match.group(2)) - UNITS.index(unit.upper())
        size = float(match.group(1)) * 1024.0**power
        return (f"{size:.0f}" if size == int(size) else f"{size:.2f}") + unit.upper()

    return _SIZE.sub(converted, text)
