"""Counts of tasks, actors and objects, and a summary of memory."""

from __future__ import annotations

from typing import Any

from phalanx.observe.state.query import MAX_LIMIT, StateQuery
from phalanx.observe.state.summaries import summary, summary_query
from phalanx.util.state.listing import TIMEOUT_S
from phalanx.util.state.rows import answer


def summarize_tasks(
    address: str | None = None,
    timeout: float = TIMEOUT_S,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return the number of tasks of each function in each state, under `["cluster"]["summary"]`.

    Example:
        summary = summarize_tasks()["cluster"]["summary"]
    """
    return _summary("tasks", address, timeout, raise_on_missing_output, _explain)


def summarize_actors(
    address: str | None = None,
    timeout: float = TIMEOUT_S,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return the number of actors of each class in each state, under `["cluster"]["summary"]`."""
    return _summary("actors", address, timeout, raise_on_missing_output, _explain)


def summarize_objects(
    address: str | None = None,
    timeout: float = TIMEOUT_S,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Return the number of objects by the place in the program that created them, with their sizes
    and the processes that refer to them.
    """
    return _summary("objects", address, timeout, raise_on_missing_output, _explain)


def _summary(
    kind: str, address: str | None, timeout: float, is_whole: bool, explains: bool
) -> dict[str, Any]:
    part = answer(summary_query(kind, timeout), address, is_whole, explains).part
    return {"cluster": summary(kind, part)}


def memory_summary(address: str | None = None, timeout: float = TIMEOUT_S) -> str:
    """Return a text with the memory of each node, and a line for each reference that a process
    holds.

    Example:
        print(memory_summary())
    """
    objects = answer(StateQuery("objects", [], MAX_LIMIT, True, timeout_s=timeout), address, False)
    stores = answer(StateQuery("stores", [], MAX_LIMIT, timeout_s=timeout), address, False)
    lines = [
        f"{row['object_id']}  {row['pid']}  {row['type']}  {row['task_status']}  "
        f"{row['object_size']}  {row['reference_type']}"
        for row in objects.part.rows
    ]
    of_nodes = [
        f"Node {row['node_id']}: {row['objects']} objects, {row['shared_bytes']} bytes in memory, "
        f"{row['spilled_bytes']} on disk"
        for row in stores.part.rows
    ]
    return "\n".join([*of_nodes, f"References: {objects.part.total}", *lines])
