"""Queues: whose gangs and jobs share the cluster, and by what right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.api.session import engine_or_start

Amounts = Mapping[str, float]


def create_queue(
    name: str,
    *,
    weight: int | None = None,
    capability: Amounts | None = None,
    deserved: Amounts | None = None,
    guarantee: Amounts | None = None,
    parent: str | None = None,
    priority: int | None = None,
    reclaimable: bool | None = None,
) -> dict[str, Any]:
    """Make a queue; its row, as in `queues()`.

    `weight` (default 1) says what it deserves among busy queues beside it, unless `deserved`
    does; what is idle may be borrowed up to `capability`, and is taken back from queues that are
    `reclaimable`; `guarantee` is kept free for it. Amounts are like {"CPU": 8, "GPU": 2}. Raises
    JobCommandError with all that speaks against it.
    """
    return _ask("create_queue", name, _fields(locals()))


def update_queue(
    name: str,
    *,
    weight: int | None = None,
    capability: Amounts | None = None,
    deserved: Amounts | None = None,
    guarantee: Amounts | None = None,
    parent: str | None = None,
    priority: int | None = None,
    reclaimable: bool | None = None,
) -> dict[str, Any]:
    """Change a queue; what is not named stays. Raises QueueUnavailableError when there is none,
    and JobCommandError with all that speaks against the change."""
    return _ask("update_queue", name, _fields(locals()))


def open_queue(name: str) -> dict[str, Any]:
    """Let work in (again), here and into those below that were closed with it."""
    return _ask("open_queue", name)


def close_queue(name: str) -> dict[str, Any]:
    """Let no more work in, here and below. What is in it goes on; then it is Closed."""
    return _ask("close_queue", name)


def delete_queue(name: str) -> None:
    """Forget an empty queue that has none below it. Raises JobCommandError otherwise."""
    _ask("delete_queue", name)


def queues() -> list[dict[str, Any]]:
    """All queues: state, weight, amounts, and how many of their gangs are in each phase."""
    rows: list[dict[str, Any]] = engine_or_start().request("batch.queues")
    return rows


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != "name" and value is not None}


def _ask(method: str, name: str, fields: dict[str, Any] | None = None) -> dict[str, Any]:
    if not isinstance(name, str) or not name:
        raise ValueError(f"a queue's name is a string that is not empty, not {name!r}")
    args: dict[str, Any] = {"name": name}
    if fields is not None:
        args["fields"] = fields
    row: dict[str, Any] = engine_or_start().request(f"batch.{method}", **args)
    return row
