"""The layout of a table in a given width. Each row is one line, and names are never cut. If a
terminal is too narrow for all columns, the least important columns are left out, always in the same
order. Texts that may be cut, such as reasons, get the remaining width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

GAP = "  "
CUT = "…"
_LEAST_TEXT = 16
"""The smallest width, in characters, to which a text is cut. If there is less room, its whole
column is left out.
"""


class Column(NamedTuple):
    """A column of a listing."""

    name: str
    """The name in lower case, for `-o`. The column's head is this name in capitals."""
    cell: Callable[[Any], str]
    """The function that returns the column's cell for a row."""
    rank: int = 0
    """The rank that decides when a narrow terminal leaves out this column. The column with the
    highest rank is left out first. A column with rank 0 always stays.
    """
    is_right: bool = False
    """Whether the cells are aligned to the right."""
    is_text: bool = False
    """Whether the cells are sentences, which may be cut."""
    is_usual: bool = True
    """Whether the column is shown by default, without `-o`."""
    earlier_name: str = ""
    """A name from an earlier version that `-o` still accepts."""


def width_of(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, width: int) -> str:
    """Return a text, cut to `width` with an ellipsis if it is longer."""
    if width_of(text) <= width:
        return text
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + CUT


def wrapped(text: str, width: int, terminal: int) -> list[str]:
    """Return the lines of a text, each with as many words as fit into `width`. A longer word is a
    line of its own, because a word may be a name, and names are never folded. Only a word that is
    wider than the whole terminal is broken.
    """
    lines = [""]
    for whole in text.split():
        size = len(whole) if width_of(whole) <= terminal else width
        for word in (whole[start : start + size] for start in range(0, len(whole), size)):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if lines[-1] and width_of(longer) > width:
                lines.append(word)
            else:
                lines[-1] = longer
    return lines


def columns_that_fit(
    columns: Sequence[Column], widths: Sequence[int], width: int, least_last: int = _LEAST_TEXT
) -> tuple[list[int], list[int]]:
    """Return the indices of the columns that a terminal of this width shows, and the widths that
    these columns get. `widths`: the width of each column's widest cell. `least_last`: the smallest
    width to which texts in the last column are cut.
    """
    least_texts = [*[_LEAST_TEXT] * (len(columns) - 1), least_last]
    least = [
        min(wide, least_text) if column.is_text else wide
        for column, wide, least_text in zip(columns, widths, least_texts, strict=True)
    ]
    shown = list(range(len(columns)))

    def needed() -> int:
        return sum(least[one] for one in shown) + len(GAP) * (len(shown) - 1)

    for one in sorted(shown, key=lambda one: (-columns[one].rank, -one)):
        if needed() <= width or columns[one].rank == 0:
            break
        shown.remove(one)
    room = width - needed()
    found = []
    for one in shown:
        more = min(max(room, 0), widths[one] - least[one])
        room -= more
        found.append(least[one] + more)
    return shown, found


def lines_of(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[bool],
) -> list[str]:
    """Return the line of the heads and one line for each row. Cells that are too long are cut."""
    lines = []
    for row in (heads, *rows):
        cells = []
        for text, width, is_right in zip(row, widths, right, strict=True):
            shown = cut(text, width)
            space = " " * (width - width_of(shown))
            cells.append(space + shown if is_right else shown + space)
        lines.append(GAP.join(cells).rstrip())
    return lines


def fitted(
    columns: Sequence[Column], rows: Sequence[Any], width: int | None, safe: Callable[[str], str]
) -> list[str]:
    """Return the lines of a listing.

    If `width` is None, no column is cut or left out. `safe` makes cells printable.
    """
    heads = [column.name.upper() for column in columns]
    shown, heads, cells, room = _chosen(columns, heads, rows, width, safe)
    return lines_of(heads, cells, room, [one.is_right for one in shown])


def table_lines(
    columns: Sequence[Column], rows: Sequence[Any], width: int | None, safe: Callable[[str], str]
) -> list[str]:
    """Return the lines of a table. A table differs from a listing (`fitted`) in two ways. The heads
    are the columns' names unchanged. The texts of the last column take several lines instead of
    being cut.
    """
    names = [column.name for column in columns]
    cells_of_last = [safe(columns[-1].cell(row)) for row in rows]
    words = (width_of(word) for cell in cells_of_last for word in cell.split())
    longest = max((wide for wide in words if width is None or wide <= width), default=0)
    least_last = max(longest, _LEAST_TEXT)
    shown, heads, cells, room = _chosen(columns, names, rows, width, safe, least_last)
    lines = []
    for row in cells:
        first, *others = [row[-1]] if width is None else wrapped(row[-1], room[-1], width)
        lines.append([*row[:-1], first])
        lines += [[""] * (len(row) - 1) + [text] for text in others]
    widths = [*room[:-1], max(map(width_of, (heads[-1], *(row[-1] for row in lines))))]
    return lines_of(heads, lines, widths, [one.is_right for one in shown])


def _chosen(
    columns: Sequence[Column],
    heads: Sequence[str],
    rows: Sequence[Any],
    width: int | None,
    safe: Callable[[str], str],
    least_last: int = _LEAST_TEXT,
) -> tuple[list[Column], list[str], list[list[str]], list[int]]:
    """Return the columns that are shown, with their heads, cells and widths."""
    cells = [[safe(column.cell(row)) for column in columns] for row in rows]
    widths = [
        max(map(width_of, (head, *(row[number] for row in cells))))
        for number, head in enumerate(heads)
    ]
    shown = list(range(len(columns)))
    if width is not None:
        shown, widths = columns_that_fit(columns, widths, width, least_last)
    return (
        [columns[one] for one in shown],
        [heads[one] for one in shown],
        [[row[one] for one in shown] for row in cells],
        widths,
    )
