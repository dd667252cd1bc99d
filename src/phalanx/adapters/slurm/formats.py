"""Slurm's ways to say which columns a listing has: `%.18i %j`, `JobID:20,Name`, `JobID%20`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.adapters.slurm.options import OptionError
from phalanx.model.nearest import nearest

_LETTER = re.compile(r"%(\.?)([0-9]{0,4})([A-Za-z%])")
_FIELD = re.compile(r"([A-Za-z]+)(?:[:%](\.?-?)([0-9]{0,4}))?")


class Column(msgspec.Struct, frozen=True):
    """A field's name in rows, its title, and how wide it is (0: as wide as it needs)."""

    field: str
    title: str
    width: int = 0
    is_right: bool = False
    before: str = ""
    """What stands before it in the format."""


def letters(format: str, fields: Mapping[str, tuple[str, str]], command: str) -> list[Column]:
    """The columns of a format with %-letters; `fields`: field and title by letter. Text behind the
    last is a column without a field. `%all` is all of them. Raises OptionError for a letter that is
    none."""
    if format == "%all":
        return [
            Column(field, title, before="|" * (number > 0))
            for number, (field, title) in enumerate(fields.values())
        ]
    columns, at = [], 0
    for match in _LETTER.finditer(format):
        right, width, letter = match.groups()
        if letter not in fields:
            known = " ".join(f"%{one}" for one in fields)
            raise OptionError(f"{command}: there is no %{letter} here; there are {known}")
        field, title = fields[letter]
        before = format[at : match.start()]
        columns.append(Column(field, title, int(width or 0), bool(right), before))
        at = match.end()
    if format[at:]:
        columns.append(Column("", "", before=format[at:]))
    return columns


def names(
    format: str, fields: Mapping[str, tuple[str, str]], command: str, width: int = 0
) -> list[Column]:
    """The columns of a format with names (any case), each perhaps with a width; `width`: of those
    without. Raises OptionError for a name that is none."""
    known = {name.lower(): found for name, found in fields.items()}
    columns = []
    for word in filter(None, format.replace(" ", ",").split(",")):
        match = _FIELD.fullmatch(word)
        name = "" if match is None else match.group(1).lower()
        if match is None or name not in known:
            near = nearest(word, list(fields))
            there = ", ".join(fields)
            raise OptionError(
                f"{command}: there is no field {word!r} here{near}; there are {there}"
            )
        field, title = known[name]
        columns.append(Column(field, title, int(match.group(3) or width), match.group(2) == "."))
    return columns


def listed(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, str]],
    has_head: bool,
    separator: str = "",
) -> list[str]:
    """Lines. With a `separator` fields have no width, and it stands between them."""
    heads = {column.field: column.title for column in columns}
    out = []
    for number, row in enumerate([heads, *rows] if has_head else rows):
        cells = []
        for column in columns:
            if has_head and number == 0:
                text = column.title
            else:
                text = row.get(column.field, "")
            if column.width and not separator:
                text = text[: column.width]
                text = text.rjust(column.width) if column.is_right else text.ljust(column.width)
            cells.append(column.before + text)
        out.append(separator.join(cells).rstrip(" "))
    return out
