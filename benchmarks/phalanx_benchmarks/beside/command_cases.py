"""Reads the shell lines in `commands.txt`, `orders.txt`, `launchers.txt` and `torch.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

OK, MENDED = "ok", "mended"
REFUSED = "refused: "
"""The prefix of a case's reason if Phalanx refuses the command or an option by name."""
FILE = Path(__file__).with_name("commands.txt")
ORDERS = Path(__file__).with_name("orders.txt")
LAUNCHERS = Path(__file__).with_name("launchers.txt")
TORCH = Path(__file__).with_name("torch.txt")


class Case(NamedTuple):
    """One line for a shell. `known` is OK, MENDED, or the reason why the two sides differ."""

    key: str
    line: str
    known: str


def read_cases(text: str) -> list[Case]:
    """Return the cases of a file. Raises ValueError for a case without a shell line or without the
    field `known`.
    """
    cases = []
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for block in filter(None, map(str.strip, kept.split("\n\n"))):
        key, *rest = block.splitlines()
        if len(rest) != 2 or not rest[1].startswith("  = "):
            raise ValueError(f"commands.txt: {key}: it takes one line and one answer")
        cases.append(Case(key, rest[0].strip(), rest[1].removeprefix("  = ")))
    return cases
