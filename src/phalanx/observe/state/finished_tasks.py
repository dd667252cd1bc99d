"""Offers finished attempts of tasks to a query. A process may remember tens of thousands of
attempts, so a row is made only for an attempt that is shown.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import Selection

Owned = tuple[bytes, Any]
"""A finished attempt, as (id of its owner, its Run or RunFields)."""
_NUMBER, _NAME, _STATE, _ENDED, _ATTEMPT, _ABOUT, _ERROR = 0, 1, 2, 4, 6, 7, 10
"""The indexes of fields of a Run."""
_COLUMNS: Mapping[str, Callable[[Any], Any]] = {
    "name": itemgetter(_NAME),
    "state": itemgetter(_STATE),
    "error_type": lambda run: run[_ERROR] or None,
    "func_or_class_name": lambda run: run[_ABOUT].function or run[_NAME],
    "attempt_number": itemgetter(_ATTEMPT),
    "type": lambda run: "ACTOR_TASK" if run[_ABOUT].actor else "NORMAL_TASK",
}
"""The columns that can be read from a finished attempt without making its row. Many attempts have
the same values in these columns.
"""


def offer_finished(
    selection: Selection, attempts: Iterable[Owned], row_of: Callable[[bytes, Any], Row]
) -> None:
    """Offer finished attempts to the query of `selection`, which may select some of them. `row_of`
    makes the row of an attempt.
    """
    if not selection.columns <= _COLUMNS.keys():
        selection.offer_all(row_of(owner, run) for owner, run in attempts)
        return
    names = sorted(selection.columns)
    values = [_COLUMNS[name] for name in names]
    alike: dict[tuple[Any, ...], list[Owned]] = {}
    for one in attempts:
        alike.setdefault(tuple([value(one[1]) for value in values]), []).append(one)
    found: list[Owned] = []
    for key, same in alike.items():
        if selection.offer_alike(dict(zip(names, key, strict=True)), len(same)):
            found += same
    order = _latest_first if selection.is_latest else _by_number
    for owner, run in heapq.nsmallest(selection.limit, found, key=order):
        selection.show(row_of(owner, run))


def _by_number(one: Owned) -> tuple[Any, ...]:
    owner, run = one
    return owner, run[_NUMBER], -run[_ATTEMPT]


def _latest_first(one: Owned) -> tuple[Any, ...]:
    owner, run = one
    return -run[_ENDED], owner, run[_NUMBER]
