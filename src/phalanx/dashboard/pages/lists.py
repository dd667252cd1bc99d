"""Lists that are shown in pages of ROWS rows. The server filters, sorts and cuts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

T = TypeVar("T")

ROWS = 50
"""The number of rows of a list on one page."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters in the address of a list."""

    filters: dict[str, str]
    sort: str
    """The column by which the list is sorted. With a dash before it, the largest value comes
    first.
    """
    page: int

    def address(self, path: str, **changes: Any) -> str:
        """Return the address of the same list with changed parameters."""
        said = {**self.filters, "sort": self.sort, "page": self.page, **changes}
        if not {"page"} >= changes.keys():
            said["page"] = 1
        kept = {k: v for k, v in said.items() if v not in ("", None) and (k, v) != ("page", 1)}
        return f"{path}?{urlencode(kept)}" if kept else path

    def sorted_by(self, column: str) -> str:
        """Return the value of `sort` after a click on a column. A second click reverses the
        order.
        """
        return f"-{column}" if self.sort == column else column


def asked(words: Mapping[str, str], filters: Sequence[str], sort: str) -> Asked:
    """Read the parameters of an address. An unknown value counts as not given."""
    page = words.get("page", "1")
    return Asked(
        filters={name: words[name][:200] for name in filters if words.get(name)},
        sort=words.get("sort", sort)[:40],
        page=int(page) if page.isdecimal() and len(page) < 6 and int(page) else 1,
    )


class Listed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list: some of the `matched` rows, out of `total`."""

    rows: list[T]
    matched: int
    total: int
    asked: Asked
    pages: int

    @property
    def first(self) -> int:
        """The number of the first row, counted from 1."""
        return (self.asked.page - 1) * ROWS + 1 if self.rows else 0


def cut(
    rows: list[T],
    total: int,
    asked: Asked,
    columns: Mapping[str, Callable[[T], Any]],
    usual: str,
) -> Listed[T]:
    """Sort the matching rows, and return the page that was asked for. `columns`: sort keys by
    column.
    """
    column = asked.sort.lstrip("-")
    if column not in columns:
        asked = msgspec.structs.replace(asked, sort=usual)
        column = usual.lstrip("-")
    key = columns[column]
    ordered = sorted(rows, key=key, reverse=asked.sort.startswith("-"))
    pages = max(-(-len(rows) // ROWS), 1)
    asked = msgspec.structs.replace(asked, page=min(asked.page, pages))
    start = (asked.page - 1) * ROWS
    return Listed(
        rows=ordered[start : start + ROWS],
        matched=len(rows),
        total=total,
        asked=asked,
        pages=pages,
    )
