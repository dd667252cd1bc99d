"""The query of a listing, and the answer from one source of rows: filters, limits, counts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.errors import StateQueryError
from phalanx.model.nearest import nearest
from phalanx.observe.state.columns import COLUMNS, Row, latest_first, order_of, trimmed

DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
"""The largest number of rows in an answer, as in Ray."""
MAX_COUNTED = 10_000
"""The largest number of different values that one source counts. Further values are counted as
OTHER.
"""
OTHER = "(other)"
PREDICATES = ("=", "!=")
_PREFIX_DIGITS = 12
"""The number of hex digits of a node's id with which the ids of its processes begin."""

Value = str | int | float | bool | None


class StateQuery(msgspec.Struct, array_like=True, frozen=True):
    """A query for the rows of a `kind` that all `filters` (column, predicate, value) accept.

    At most `limit` rows are returned. With `count_by`, the answer has no rows, but the number of
    rows for each combination of values in these columns. Sources that have not answered within
    `timeout_s` are left out, and named in the answer.
    """

    kind: str
    filters: list[tuple[str, str, Value]] = []
    limit: int = DEFAULT_LIMIT
    has_detail: bool = False
    count_by: list[str] = []
    sum_of: str = ""
    """The column whose values are added up beside the counts."""
    timeout_s: float = 30.0
    is_latest: bool = False
    """For tasks: whether the tasks that ended last come first, after those that have not ended."""


class StatePart(msgspec.Struct, array_like=True):
    """The rows and counts of one source, or of several sources together."""

    rows: list[Row]
    total: int
    """The number of all rows."""
    matched: int
    """The number of rows that the filters accept."""
    counts: list[tuple[list[Value], int, float]] = []
    """(values of the columns of `count_by`, number of rows, sum), the most frequent first."""


class StateAnswer(msgspec.Struct, array_like=True):
    """The answer to a query, with descriptions of the sources that did not answer."""

    part: StatePart
    silent: list[str]


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return the description of a source that did not answer, with names of nodes in place of their
    ids. `names`: the name of each node by its id.
    """
    for word in text.split(" "):
        name = names.get(word)
        if name is not None:
            text = text.replace(f"{word} ({name})", name).replace(word, name)
    return text


def check_query(query: StateQuery) -> None:
    """Raise StateQueryError for an invalid query, or ValueError for an invalid predicate.

    The errors say what is allowed.
    """
    columns = COLUMNS.get(query.kind)
    if columns is None:
        known = ", ".join(sorted(COLUMNS))
        near = nearest(query.kind, COLUMNS) or "."
        raise StateQueryError(
            f"There is no listing of {query.kind!r}; known listings: {known}{near}"
        )
    if not 0 <= query.limit <= MAX_LIMIT:
        raise StateQueryError(
            f"Given limit {query.limit} exceeds the supported limit {MAX_LIMIT}. Use a limit "
            "from 0 on, and filters."
        )
    if not 0 < query.timeout_s < float("inf"):
        raise StateQueryError(
            f"A timeout must be a number of seconds above 0, not {query.timeout_s}."
        )
    names = [column.name for column in columns if column.is_filterable]
    for name, predicate, _ in query.filters:
        if predicate not in PREDICATES:
            raise ValueError(
                f"Unsupported filter predicate {predicate} is given. Available predicates: =, !=."
            )
        if name.lower() not in names:
            raise StateQueryError(
                f"The given filter column {name} of {query.kind} is not supported. Supported "
                f"filter columns: {', '.join(names)}{nearest(name, names) or '.'}"
            )
    for name in (*query.count_by, *([query.sum_of] if query.sum_of else ())):
        if name not in {column.name for column in columns}:
            raise StateQueryError(f"{query.kind} have no column {name!r} to count by.")


class Selection:
    """The rows that a query selects, in limited memory. All rows are offered to it, and it keeps
    the selected ones.
    """

    def __init__(self, query: StateQuery) -> None:
        self._query = query
        self._rows: list[Row] = []
        self._counts: dict[tuple[Any, ...], list[float]] = {}
        self._total = self._matched = 0
        self.columns = frozenset(
            (*(name.lower() for name, *_ in query.filters), *query.count_by, query.sum_of)
        ) - {""}
        """The columns on which it depends whether a row is selected, and how it is counted."""

    def offer(self, row: Row) -> None:
        """Add a row, with all its columns, if the query selects it."""
        if self.offer_alike(row, 1):
            self.show(row)

    def offer_alike(self, row: Row, count: int) -> bool:
        """Count `count` rows that equal `row` in the query's `columns`. Returns whether they belong
        to the rows of the answer; the caller must then call `show` for each of them.
        """
        self._total += count
        if not lets_through(self._query.filters, row):
            return False
        self._matched += count
        query = self._query
        if not query.count_by:
            return True
        amount = row.get(query.sum_of) if query.sum_of else 0
        key = tuple(row.get(name) for name in query.count_by)
        # an amount of -1 means that the object does not exist yet
        self._count(key, count, count * max(amount or 0, 0))
        return False

    def show(self, row: Row) -> None:
        """Add a selected row, with all its columns."""
        self._keep([row])

    def offer_all(self, rows: Iterable[Row]) -> None:
        """Offer several rows, of which the query may select some."""
        for row in rows:
            self.offer(row)

    def count_unseen(self, count: int) -> None:
        """Count rows that the query selects although they are not offered."""
        self._total += count
        self._matched += count

    def add(self, part: StatePart) -> None:
        """Add the rows and counts of a part of the answer to the same query."""
        self._total += part.total
        self._matched += part.matched
        self._keep(part.rows)
        for key, count, amount in part.counts:
            self._count(tuple(key), count, amount)

    def part(self) -> StatePart:
        """Return the selected rows, and the counts."""
        query = self._query
        self._cut()
        rows = [trimmed(query.kind, row, query.has_detail) for row in self._rows]
        counts = [(list(key), int(n), amount) for key, (n, amount) in self._counts.items()]
        counts.sort(key=lambda one: (-one[1], str(one[0])))
        return StatePart(rows, self._total, self._matched, counts)

    @property
    def limit(self) -> int:
        """The largest number of rows to keep."""
        return self._query.limit

    @property
    def is_latest(self) -> bool:
        """Whether the tasks that ended last come first."""
        return self._query.is_latest

    @property
    def takes_any(self) -> bool:
        """Whether the first rows are the answer, because the query neither filters nor counts."""
        return not (self._query.filters or self._query.count_by)

    def _keep(self, rows: list[Row]) -> None:
        self._rows += rows
        if len(self._rows) > 2 * self._query.limit + MAX_LIMIT:
            self._cut()

    def _cut(self) -> None:
        kind, order = self._query.kind, latest_first if self._query.is_latest else order_of
        self._rows = heapq.nsmallest(
            self._query.limit, self._rows, key=lambda row: order(kind, row)
        )

    def _count(self, key: tuple[Any, ...], count: int, amount: float) -> None:
        if key not in self._counts and len(self._counts) >= MAX_COUNTED:
            key = (OTHER,) * len(key)
        found = self._counts.setdefault(key, [0, 0])
        found[0] += count
        found[1] += amount


def lets_through(filters: Sequence[tuple[str, str, Value]], row: Row) -> bool:
    """Whether a row meets all filters."""
    for given, predicate, wanted in filters:
        name = given.lower()
        if _is_same(name, row.get(name), wanted) is not (predicate == "="):
            return False
    return True


def _is_same(name: str, have: Any, wanted: Value) -> bool:
    """Whether a column has the value of a filter.

    Upper and lower case do not differ. The filter may have a number or a truth value as text, since
    it may come from a command line.
    """
    if have is None or wanted is None:
        return have is None and str(wanted).lower() in ("none", "null", "")
    text = str(wanted).lower()
    if isinstance(have, bool):
        return text in (("true", "1") if have else ("false", "0"))
    if isinstance(have, int | float):
        try:
            return float(text) == have
        except ValueError:
            return False
    mine = str(have).lower()
    if name == "node_id":  # processes know only the beginnings of other nodes' ids
        return bool(mine) and mine[:_PREFIX_DIGITS] == text[:_PREFIX_DIGITS]
    return mine == text
