"""Options that all listings share (`-o`, `--no-headers`), and the printing of a listing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any

from phalanx.cli.layout import Column, fitted
from phalanx.cli.options import Option
from phalanx.cli.reach import USAGE, fail
from phalanx.cli.table import bold_head, echo, safe, terminal_width

WIDE, NAME, ALL = "wide", "name", "all"
Output = Annotated[
    str,
    Option(
        "--output",
        "-o",
        help="Columns to show: `wide` (all columns), `name` (only the first column), or names of "
        "columns, separated by commas.",
    ),
]
NoHeaders = Annotated[
    bool, Option("--no-headers", help="Do not print the line with the columns' names.")
]


def show(
    columns: Sequence[Column], rows: Sequence[Any], output: str = "", no_headers: bool = False
) -> None:
    """Print a listing with one line for each row, within the width of the terminal. `columns`: all
    columns of the listing; the first has the row's name. `output`: the value of `-o`.
    """
    echo(listing(columns, rows, output, no_headers))


def listing(
    columns: Sequence[Column], rows: Sequence[Any], output: str = "", no_headers: bool = False
) -> str:
    """Return the listing that `show` prints, as text. Ends the command for an unknown column."""
    if output == NAME:
        return "\n".join(safe(columns[0].cell(row)) for row in rows)
    chosen = chosen_columns(columns, output)
    # named columns are shown whole, and programs read whole lines
    width = None if output else terminal_width()
    lines = fitted(chosen, rows, width, safe)
    return "\n".join(lines[1:] if no_headers else bold_head(lines))


def fitted_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    ranks: Mapping[str, int],
    right: Collection[str] = (),
    texts: Collection[str] = (),
) -> str:
    """Return a table within the width of the terminal, with one line for each row. `ranks`: when a
    narrow terminal leaves out a column (see `layout.Column`); a column without a rank is always
    shown. `right`: the columns that are aligned to the right. `texts`: the columns whose texts may
    be cut.
    """
    columns = [
        Column(
            name,
            itemgetter(number),
            rank=ranks.get(name, 0),
            is_right=name in right,
            is_text=name in texts,
        )
        for number, name in enumerate(head)
    ]
    return "\n".join(bold_head(fitted(columns, rows, terminal_width(), safe)))


def chosen_columns(columns: Sequence[Column], output: str) -> list[Column]:
    """Return the columns that the value of `-o` names. Ends the command for an unknown column."""
    if output in ("", NAME):
        return [one for one in columns if one.is_usual]
    if output in (WIDE, ALL):
        return list(columns)
    known = {one.name: one for one in columns}
    earlier = {one.earlier_name: one.name for one in columns if one.earlier_name}
    words = [word.strip().lower() for word in output.split(",") if word.strip()]
    words = [earlier.get(word, word) for word in words]
    for word in words:
        if word not in known:
            from phalanx.model.nearest import nearest

            fail(
                f"There is no column {word!r}{nearest(word, list(known))}; the columns are "
                f"{', '.join(known)}, and `wide` shows all columns.",
                USAGE,
            )
    if not words:
        fail("-o takes at least one column.", USAGE)
    return [known[word] for word in words]
