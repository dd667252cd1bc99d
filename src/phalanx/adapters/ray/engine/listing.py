"""Lists what Ray runs and stores, through Ray's own state API."""

from __future__ import annotations

import dataclasses
from typing import Any

from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import (
    MAX_LIMIT,
    Selection,
    StateAnswer,
    StateQuery,
    check_query,
)

OF_SCHEDULER = frozenset({"gangs", "jobs"})
"""The kinds of listing that only the scheduler can answer."""
_NAMES = {
    "actors": "list_actors",
    "drivers": "list_jobs",
    "groups": "list_placement_groups",
    "nodes": "list_nodes",
    "objects": "list_objects",
    "tasks": "list_tasks",
    "workers": "list_workers",
}


def ray_listing(query: StateQuery) -> StateAnswer:
    """Return the rows that a query selects, out of the first MAX_LIMIT rows that Ray returns."""
    from ray.util import state

    check_query(query)
    selection = Selection(query)
    name = _NAMES.get(query.kind)
    if name is not None:  # Ray does not list files
        found: list[Any] = getattr(state, name)(
            limit=MAX_LIMIT, timeout=query.timeout_s, detail=True, raise_on_missing_output=False
        )
        selection.offer_all(_row(one) for one in found)
    return StateAnswer(selection.part(), [])


def _row(one: Any) -> Row:
    return dict(one) if isinstance(one, dict) else dataclasses.asdict(one)
