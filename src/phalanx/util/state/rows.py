"""Rows of listings, and the functions that query them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from phalanx.api.session import attached_engine
from phalanx.errors import StateQueryError
from phalanx.observe.state.query import StateAnswer, StateQuery, check_query
from phalanx.protocol.requests.state import QueryState

Filters = Sequence[tuple[str, str, Any]] | None
_NAMED_SILENT = 3
_SLACK_S = 2.0
"""Seconds that an answer may take beyond the query's own time limit."""


class StateRow(dict[str, Any]):
    """A row of a listing. Its fields can be read by key and by attribute."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def answer(
    query: StateQuery, address: str | None, is_whole: bool, explains: bool = False
) -> StateAnswer:
    """Return a cluster's answer to a query.

    `address` is that of the cluster; None means the cluster that this program uses or, if it uses
    none, the only one on this machine. With `explains`, a UserWarning says what the answer lacks.
    Raises StateQueryError when `is_whole` and a process did not answer in time, ValueError for a
    query that is not allowed, and ConnectionError when there is no cluster.
    """
    check_query(query)
    engine = attached_engine()
    if engine is not None and address in (None, "auto"):
        found = engine.state(query)
    else:
        from phalanx.runtime.daemons.finding import ask_cluster

        found = ask_cluster(address, QueryState(query), query.timeout_s + _SLACK_S)
    if is_whole and found.silent:
        raise StateQueryError(
            f"Failed to retrieve all {query.kind} from the cluster due to query failures to the "
            f"data sources: {unanswered(found.silent)}. To have the others' rows, set "
            "`raise_on_missing_output=False`."
        )
    if explains and found.silent:
        warnings.warn(f"{unanswered(found.silent)}: their {query.kind} are left out", stacklevel=2)
    shown, matched = len(found.part.rows), found.part.matched
    if explains and not query.count_by and shown < matched:
        warnings.warn(
            f"these are {shown} of {matched} {query.kind}: filters choose, limit shows more",
            stacklevel=2,
        )
    return found


def unanswered(silent: Sequence[str]) -> str:
    """Return a list of the processes that did not answer, as text for users."""
    more = len(silent) - _NAMED_SILENT
    named = "; ".join(silent[:_NAMED_SILENT])
    return f"no answer from {named}" + (f" and {more} more" if more > 0 else "")


def rows(
    kind: str,
    address: str | None,
    filters: Filters,
    limit: int,
    timeout: float,
    detail: bool,
    is_whole: bool,
    explains: bool = False,
) -> list[StateRow]:
    """Return the rows of a kind that meet all filters."""
    for one in filters or ():
        if not isinstance(one, list | tuple) or len(one) != 3:
            raise ValueError(f"A filter must be (column, predicate, value), got {one!r}.")
    values = [(str(name), predicate, _value(value)) for name, predicate, value in filters or ()]
    query = StateQuery(kind, values, limit, detail, timeout_s=timeout)
    return [StateRow(row) for row in answer(query, address, is_whole, explains).part.rows]


def one_row(kind: str, id: str, address: str | None, timeout: float) -> list[StateRow]:
    """Return all rows with this id, with all columns."""
    from phalanx.observe.state.columns import id_column

    return rows(kind, address, [(id_column(kind), "=", id)], 1_000, timeout, True, True)


def _value(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
