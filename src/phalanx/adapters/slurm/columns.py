"""A column of Slurm's listings, and readers of tables of columns."""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A column of a listing. `field`: the key of the column's text in a row; "" if rows have no
    such text. `unknown`: the text for an unknown value. `width`: the default width; below 0 for a
    column aligned to the left.
    """

    field: str
    title: str
    unknown: str = ""
    width: int = 0


_NOTHING = {"-": ""}


def columns_of(table: str) -> dict[str, Field]:
    """Return the columns in a table, by name. A line of the table has the column's name, field,
    title and text for an unknown value. A `-` stands for an empty entry.
    """
    found = {}
    for line in table.strip().splitlines():
        name, field, title, unknown = (_NOTHING.get(word, word) for word in line.split())
        found[name] = Field(field, title, unknown)
    return found


def columns_with_widths(table: str) -> dict[str, Field]:
    """Return the columns in a table, by name. A line of the table has the column's name, width,
    field and text for an unknown value; the last two may be missing.
    """
    found = {}
    for line in table.strip().splitlines():
        name, width, *cells = line.split()
        field, unknown = [*(_NOTHING.get(word, word) for word in cells), "", ""][:2]
        found[name] = Field(field, name, unknown, int(width))
    return found
