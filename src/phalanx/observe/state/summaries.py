"""Counts of tasks, actors and objects in the form of Ray's summaries, and suspected leaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from phalanx.errors import StateQueryError
from phalanx.observe.state.columns import Row
from phalanx.observe.state.query import OTHER, StatePart, StateQuery

_MB = 1024 * 1024
_BY = {
    "tasks": ["func_or_class_name", "type", "state"],
    "actors": ["class_name", "state"],
    "objects": [
        *("call_site", "task_status", "reference_type", "attempt_number"),
        *("process_id", "node_id"),
    ],
}
SUMMARIES = tuple(_BY)
"""The kinds that have summaries."""
_TOTALS = {
    "NORMAL_TASK": "total_tasks",
    "ACTOR_TASK": "total_actor_tasks",
    "ACTOR_CREATION_TASK": "total_actor_scheduled",
}


def summary_query(kind: str, timeout_s: float) -> StateQuery:
    """Return the query whose answer `summary` needs. Raises StateQueryError for another kind."""
    if kind not in _BY:
        raise StateQueryError(f"There is no summary of {kind!r}; allowed: {', '.join(SUMMARIES)}.")
    sum_of = "object_size" if kind == "objects" else ""
    return StateQuery(kind, count_by=_BY[kind], sum_of=sum_of, timeout_s=timeout_s)


def summary(kind: str, part: StatePart) -> dict[str, Any]:
    """Return the answer to `summary_query` in the form of Ray's summaries."""
    return {"tasks": _of_tasks, "actors": _of_actors, "objects": _of_objects}[kind](part)


def _of_tasks(part: StatePart) -> dict[str, Any]:
    totals = dict.fromkeys(_TOTALS.values(), 0)
    groups: dict[str, dict[str, Any]] = {}
    for (name, kind, state), count, _ in part.counts:
        new: dict[str, Any] = {"func_or_class_name": name, "type": kind, "state_counts": {}}
        counts = groups.setdefault(str(name), new)["state_counts"]
        counts[state] = counts.get(state, 0) + count
        totals[_TOTALS.get(str(kind), "total_tasks")] += count
    return {"summary": groups, **totals, "summary_by": "func_name"}


def _of_actors(part: StatePart) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    for (name, state), count, _ in part.counts:
        new: dict[str, Any] = {"class_name": name, "state_counts": {}}
        groups.setdefault(str(name), new)["state_counts"][state] = count
    return {"summary": groups, "total_actors": part.matched, "summary_by": "class"}


def _of_objects(part: StatePart) -> dict[str, Any]:
    groups: dict[str, dict[str, Any]] = {}
    holders: dict[str, tuple[set[Any], set[Any]]] = {}
    for (site, status, reference, attempt, process, node), count, size in part.counts:
        new: dict[str, Any] = {
            "total_objects": 0,
            "total_size_mb": 0.0,
            "task_state_counts": {},
            "task_attempt_number_counts": {},
            "ref_type_counts": {},
        }
        group = groups.setdefault(str(site), new)
        group["total_objects"] += count
        group["total_size_mb"] += size / _MB
        for column, value in (
            ("task_state_counts", status),
            ("task_attempt_number_counts", str(attempt)),
            ("ref_type_counts", reference),
        ):
            group[column][value] = group[column].get(value, 0) + count
        processes, nodes = holders.setdefault(str(site), (set(), set()))
        processes.add(process)
        nodes.add(node)
    for site, (processes, nodes) in holders.items():
        groups[site] |= {"total_num_workers": len(processes), "total_num_nodes": len(nodes)}
    return {
        "summary": groups,
        "total_objects": part.matched,
        "total_size_mb": sum(group["total_size_mb"] for group in groups.values()),
        "callsite_enabled": not {"disabled", OTHER} & groups.keys(),
        "summary_by": "callsite",
    }


def leaked_suspects(stores: Iterable[Row], held: Iterable[Row]) -> list[Row]:
    """Return the objects' files that are on nodes although no process holds them, the largest
    first.

    `stores` and `held` are the rows of the kinds stores and files, from all nodes and all
    processes.
    """
    names = {row.get("file") for row in held}
    found = [
        {"file": name, "object_size": size, "node_id": store.get("node_id"), "owner_id": owner}
        for store in stores
        for name, (size, _, owner) in (store.get("files") or {}).items()
        if name not in names
    ]
    return sorted(found, key=lambda row: (-row["object_size"], row["file"]))
