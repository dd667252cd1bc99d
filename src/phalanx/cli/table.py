"""Plain tables and amounts for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their longest cell, nothing cut off, two spaces between."""
    lines = [list(head), *([safe(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def safe(text: str) -> str:
    """`text` without anything that steers a terminal: labels and names are a stranger's."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def amount(value: float) -> str:
    """A number as people write it: no decimals where there are none."""
    return f"{round(value, 4):g}"


def size(value: float) -> str:
    """Bytes in the largest unit that leaves at least one of it: 1.5 GiB."""
    step = 0
    while value >= _STEP and step < len(_UNITS) - 1:
        value, step = value / _STEP, step + 1
    return f"{value:.1f} {_UNITS[step]}" if step else f"{value:.0f} B"
