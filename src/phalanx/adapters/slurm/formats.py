"""Slurm's formats for the columns of listings: `%.18i %j`, `JobID:20,Name`, `JobID%20`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.adapters.slurm.columns import Field
from phalanx.adapters.slurm.options import OptionError
from phalanx.model.nearest import nearest

_LETTER = re.compile(r"%(\.?)([0-9]{0,4})([A-Za-z])")
_NAME = re.compile(r"([A-Za-z_-]+)(?::(\.?)([0-9]{0,4})(.*))?")
_SACCT = re.compile(r"([A-Za-z]+)(?:%(-?)([0-9]{0,4}))?")
_UNKNOWN_NUMBERS = ("0", "00:00:00")
_UNKNOWN_DATE = "Unknown"
NAME_WIDTH = 20
"""The width of a column of squeue's and sinfo's --Format without a given width."""


class Column(msgspec.Struct, frozen=True):
    """A column of a listing: the field of the rows, the title, and the width (0: as wide as
    needed).
    """

    field: str
    title: str
    width: int = 0
    is_right: bool = False
    before: str = ""
    """The text of the format before the column."""
    after: str = ""
    unknown: str = ""
    """The text of the cell in a row that does not have the field."""
    has_mark: bool = False
    """Whether a cut cell ends in a plus sign, as in sacct."""
    is_whole: bool = False
    """Whether cells are never cut, like sacct's numbers."""


def letters(
    format: str, fields: Mapping[str, Field], noun: str = "job"
) -> tuple[list[Column], list[str]]:
    """Return the columns of a format with %-letters, and complaints about unknown letters.

    As in Slurm, an unknown letter is printed as text. Text after the last letter becomes a column
    without a field. `%all` means all columns.
    """
    if format == "%all":
        return [
            Column(one.field, one.title, before="|" * (number > 0), unknown=one.unknown)
            for number, one in enumerate(fields.values())
        ], []
    columns, at, complaints = [], 0, []
    for match in _LETTER.finditer(format):
        right, width, letter = match.groups()
        if letter not in fields:
            complaints.append(f"Invalid {noun} format specification: {letter}")
            continue
        one = fields[letter]
        before = format[at : match.start()]
        columns.append(
            Column(one.field, one.title, int(width or 0), bool(right), before, unknown=one.unknown)
        )
        at = match.end()
    if format[at:]:
        columns.append(Column("", "", before=format[at:]))
    return columns, complaints


def names(format: str, fields: Mapping[str, Field]) -> tuple[list[Column], list[str]]:
    """Return the columns of squeue's or sinfo's --Format, and complaints about unknown names.

    A column is `NAME[:[.][WIDTH][TEXT]]`, in upper or lower case. Unknown columns are left out.
    """
    known = {name.lower(): found for name, found in fields.items()}
    columns, complaints = [], []
    for word in filter(None, format.split(",")):
        match = _NAME.fullmatch(word.strip())
        one = None if match is None else known.get(match.group(1).lower())
        if match is None or one is None:
            complaints.append(f"Invalid job format specification: {word}")
            continue
        _, right, width, after = match.groups()
        columns.append(
            Column(
                one.field, one.title, int(width or NAME_WIDTH), bool(right),
                after=after or "", unknown=one.unknown,
            )
        )  # fmt: skip
    return columns, complaints


def sacct_names(
    format: str, fields: Mapping[str, Field], command: str, width: int = 0
) -> list[Column]:
    """Return the columns of sacct's or sshare's --format.

    A column is `NAME[%[-]WIDTH]`, in upper or lower case; the beginning of a name is enough.
    `width`: the width of columns without a given width. Raises OptionError for an unknown name.
    """
    known = {name.lower(): found for name, found in fields.items()}
    columns = []
    for word in filter(None, format.replace(" ", ",").split(",")):
        match = _SACCT.fullmatch(word)
        given = "" if match is None else match.group(1).lower()
        name = next((one for one in (given, *known) if one in known and one.startswith(given)), "")
        if match is None or not name:
            near = nearest(word, list(fields))
            there = ", ".join(fields)
            raise OptionError(
                f'{command}: Invalid field requested: "{word}"{near}; the fields are {there}'
            )
        one = known[name]
        _, left, written = match.groups()
        wide = int(written) if written else abs(one.width) or width
        is_right = not left and (bool(written) or one.width >= 0)
        columns.append(
            Column(
                one.field, one.title, wide, is_right, after=" ", unknown=one.unknown,
                has_mark=one.unknown != _UNKNOWN_DATE, is_whole=one.unknown in _UNKNOWN_NUMBERS,
            )
        )  # fmt: skip
    return columns


def listed(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, str]],
    has_head: bool,
    separator: str = "",
) -> list[str]:
    """Return the lines of a listing. With `separator`, fields are not padded, but separated by this
    text.
    """
    heads = [one.title for one in columns]
    out = [_line(columns, heads, separator, has_marks=False)] if has_head else []
    pattern = "" if separator else _pattern(columns)
    if pattern:
        cells = [[row.get(one.field) or one.unknown for row in rows] for one in columns]
        return out + [pattern % line for line in zip(*cells, strict=True)]
    for row in rows:
        out.append(_line(columns, [row.get(c.field) or c.unknown for c in columns], separator))
    return out


def _pattern(columns: Sequence[Column]) -> str:
    """Return a %-format for a line, which is faster for thousands of rows; "" for columns that need
    more than a format.
    """
    if any(one.has_mark or one.is_whole for one in columns):
        return ""
    parts = []
    for one in columns:
        side = "" if one.is_right else "-"
        cell = f"%{side}{one.width}.{one.width}s" if one.width else "%s"
        parts.append(one.before.replace("%", "%%") + cell + one.after.replace("%", "%%"))
    return "".join(parts)


def _line(
    columns: Sequence[Column], texts: Sequence[str], separator: str, has_marks: bool = True
) -> str:
    if separator:
        return separator.join(texts)
    cells = []
    for column, text in zip(columns, texts, strict=True):
        width = column.width
        if width:
            if len(text) > width and not (column.is_whole and has_marks):
                is_marked = column.has_mark and has_marks
                text = text[: width - 1] + "+" if is_marked else text[:width]
            text = text.rjust(width) if column.is_right else text.ljust(width)
        cells.append(column.before + text + column.after)
    return "".join(cells)
