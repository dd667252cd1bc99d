"""A row of a listing, with typed fields. A list of rows is a table in a notebook."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, TypeVar

import msgspec


class Row(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A row of a listing. Its fields can be read as attributes (`row.name`) and, as in a mapping,
    by key (`row["name"]`).
    """

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__

    def get(self, name: str, default: Any = None) -> Any:
        """Return the field `name`, or `default` if there is no such field."""
        return getattr(self, name) if name in self.__struct_fields__ else default

    def keys(self) -> KeysView[str]:
        """Return the names of the fields."""
        return msgspec.structs.asdict(self).keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the fields."""
        return msgspec.structs.asdict(self).values()

    def items(self) -> ItemsView[str, Any]:
        """Return the fields as pairs of name and value."""
        return msgspec.structs.asdict(self).items()

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain dicts and lists, for JSON."""
        return {name: _plain(value) for name, value in self.items()}

    def _repr_html_(self) -> str:
        cells = ((name, _cell(value)) for name, value in self.items())
        return _table(
            "".join(f"<tr><th>{_escape(n)}</th><td>{cell}</td></tr>" for n, cell in cells)
        )


Mapping.register(Row)
R = TypeVar("R", bound=Row)


class Rows(list[R]):
    """A list of rows of one kind."""

    def _repr_html_(self) -> str:
        return rows_html(self)


def rows_html(rows: Sequence[Row]) -> str:
    """Return rows of one kind as a table in HTML."""
    if not rows:
        return "<i>nothing</i>"
    return cells_html(list(rows[0]), [list(row.values()) for row in rows])


def cells_html(names: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Return a table in HTML. A cell that is not HTML yet is escaped."""
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    cells = ("".join(f"<td>{_cell(value)}</td>" for value in line) for line in lines)
    return _table(f"<tr>{head}</tr>" + "".join(f"<tr>{line}</tr>" for line in cells))


def text_html(text: str) -> str:
    """Return a text as HTML that shows the text's line breaks."""
    return f"<div style='white-space:pre-wrap'>{_escape(text)}</div>"


def _table(lines: str) -> str:
    return f"<table>{lines}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, Row):
        return value._repr_html_()
    if isinstance(value, list | tuple) and value and isinstance(value[0], Row):
        return rows_html(value)
    if isinstance(value, dict):
        value = ", ".join(f"{key}: {one}" for key, one in value.items())
    elif isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return "" if value is None else _escape(str(value))


def _escape(text: str) -> str:
    # imports a table of all HTML names, which every worker would have in memory
    from html import escape

    return escape(text)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
