"""Sorts rows for Slurm's `--sort`, by letters of `--format`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.columns import Field

_NUMBERS = re.compile(r"([0-9]+)")
_STATES = ("PD", "R", "S", "CD", "CA", "F", "TO", "NF", "PR", "BF", "DL", "OOM", "CG", "RQ")
"""The short names of states, in the order of Slurm's numbers for the states."""
_AS_NUMBERS = frozenset({"priority", "fraction"})


def sorted_rows(
    rows: Sequence[dict[str, str]], order: str, letters: Mapping[str, Field]
) -> list[dict[str, str]]:
    """Return rows sorted by the fields of letters such as `P,t,-p`.

    A `-` before a letter means descending order. Equal rows keep their order. Raises ValueError for
    an unknown letter.
    """
    found = list(rows)
    for word in reversed([one for one in order.split(",") if one]):
        letter = word.lstrip("+-")
        if letter not in letters:
            raise ValueError(f"--sort={order}: there is no letter {letter!r}")
        name = letters[letter].field
        if len({row.get(name, "") for row in found}) > 1:
            keys = {text: _key(name, text) for text in {row.get(name, "") for row in found}}
            found.sort(key=lambda row, n=name, k=keys: k[row.get(n, "")],  # type: ignore[misc]
                       reverse=word.startswith("-"))  # fmt: skip
    return found


def _key(name: str, text: str) -> list[tuple[float, str]]:
    """Return a sort key. Numbers in a text are sorted by their value, and states by Slurm's
    numbers.
    """
    if name in ("short", "state"):
        short = text if name == "short" else {"PENDING": "PD", "RUNNING": "R"}.get(text, text)
        return [(float(_STATES.index(short)) if short in _STATES else len(_STATES), "")]
    if name in _AS_NUMBERS:
        return [(float(text or 0), "")]
    parts = _NUMBERS.split(text)
    return [(float(part), "") if part.isdecimal() else (0.0, part) for part in parts]
