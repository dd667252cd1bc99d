"""The rows of a comparison: the results of one case on both systems, and the kind of the row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

SAME = "same"
MENDED = "ours mended"
ON_PURPOSE = "different on purpose"
REFUSED = "refused by name"
DIFFERS = "DIFFERS"
KINDS = (SAME, MENDED, ON_PURPOSE, REFUSED, DIFFERS)


class Row(NamedTuple):
    """One compared case. `kind` is one of KINDS; DIFFERS means that the difference is
    unexplained.
    """

    name: str
    kind: str
    theirs: str
    ours: str
    why: str = ""
    """The reason why a row differs on purpose. The documents give the same reason."""


def kind_of(theirs: str, ours: str, *, mended: bool, why: str, is_refused: bool = False) -> str:
    """Return the kind of a row, given the outputs of both systems. `mended`: Phalanx once differed
    in this case. `why`: a documented reason for a difference.
    """
    if theirs == ours:
        return MENDED if mended else SAME
    if is_refused:
        return REFUSED
    return ON_PURPOSE if why else DIFFERS


def report(rows: Sequence[Row], *, shows_all: bool = False) -> str:
    """Return a report with the number of rows of each kind, and the rows in which the systems
    differ.
    """
    found = Counter(row.kind for row in rows)
    lines = []
    for row in rows:
        if shows_all or row.kind not in (SAME, MENDED):
            lines.append(f"{row.kind:<21} {row.name}{f'  ({row.why})' if row.why else ''}")
            lines += [f"    theirs  {line}" for line in row.theirs.splitlines() or ["(nothing)"]]
            lines += [f"    ours    {line}" for line in row.ours.splitlines() or ["(nothing)"]]
    counts = ", ".join(f"{found[kind]} {kind}" for kind in KINDS)
    return "\n".join([*lines, "", f"{len(rows)} rows: {counts}"])
