"""`ray.util.state`: listings of actors, tasks, objects, nodes and placement groups.

Tasks and objects are those of the calling process; what other processes started or hold, they list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.api.cluster import nodes
from phalanx.api.session import running_engine
from phalanx.objects.reference import ObjectRef, living_references
from phalanx.protocol.requests.actors import ListActors

Filters = Sequence[tuple[str, str, Any]] | None
_LIMIT = 100


class StateRow(dict[str, Any]):
    """One thing, its fields by key and by attribute."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


ActorState = NodeState = TaskState = StateRow


class RayStateApiException(Exception):  # Ray's name
    """A listing cannot be had."""


def list_actors(
    address: str | None = None,
    filters: Filters = None,
    limit: int = _LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[StateRow]:
    """All actors, the dead of late too."""
    return chosen((dict(row) for row in running_engine().ask(ListActors())), filters, limit)


def get_actor(id: str, address: str | None = None, timeout: float = 30) -> StateRow | None:
    """The actor with this id; None when there is none."""
    return _one("actor_id", id, list_actors(limit=_ALL))


def list_tasks(
    address: str | None = None,
    filters: Filters = None,
    limit: int = _LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[StateRow]:
    """This process's tasks and calls."""
    return chosen(running_engine().tasks(), filters, limit)


def get_task(id: str | Any, address: str | None = None, timeout: float = 30) -> StateRow | None:
    """This process's task with this id; None when there is none."""
    wanted = id if isinstance(id, str) else id.task_id().hex()
    return _one("task_id", wanted, list_tasks(limit=_ALL))


def list_objects(
    address: str | None = None,
    filters: Filters = None,
    limit: int = _LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[StateRow]:
    """The objects to which this process has references."""
    kind = "WORKER" if running_engine().is_worker else "DRIVER"
    rows = (
        {
            "object_id": ref.hex(),
            "task_status": "NIL" if ref._value is None else "FINISHED",
            "reference_type": "LOCAL_REFERENCE",
            "call_site": ref.call_site() or "disabled",
            "type": kind,
            "pid": os.getpid(),
        }
        for ref in living_references()
    )
    return chosen(rows, filters, limit)


def get_objects(id: str, address: str | None = None, timeout: float = 30) -> list[StateRow]:
    """The object with this id, if this process has a reference to it."""
    return list_objects(filters=[("object_id", "=", id)], limit=_ALL)


def memory_summary(*_: object, **__: object) -> str:
    """This process's references as a table."""
    rows = list_objects(limit=_ALL)
    lines = [f"{row.object_id}  {row.pid}  {row.type}  {row.task_status}" for row in rows]
    return "\n".join([f"References of process {os.getpid()}: {len(rows)}", *lines])


def free(object_refs: ObjectRef[Any] | list[ObjectRef[Any]], local_only: bool = False) -> None:
    """These objects are not needed: as for any, their memory is freed with the last reference."""
    for ref in object_refs if isinstance(object_refs, list) else [object_refs]:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"free() expects a list of ObjectRef, got {type(ref)}.")


def list_nodes(
    address: str | None = None,
    filters: Filters = None,
    limit: int = _LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[StateRow]:
    """All nodes, the dead of late too."""
    rows = (
        {
            "node_id": row["NodeID"],
            "node_ip": row["NodeManagerAddress"],
            "node_name": row["NodeName"],
            "state": "ALIVE" if row["Alive"] else "DEAD",
            "state_message": row["DeathReasonMessage"],
            "is_head_node": "node:__internal_head__" in row["Resources"],
            "resources_total": row["Resources"],
            "labels": row["Labels"],
        }
        for row in nodes()
    )
    return chosen(rows, filters, limit)


def get_node(id: str, address: str | None = None, timeout: float = 30) -> StateRow | None:
    """The node with this id; None when there is none."""
    return _one("node_id", id, list_nodes(limit=_ALL))


def list_placement_groups(
    address: str | None = None,
    filters: Filters = None,
    limit: int = _LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[StateRow]:
    """All placement groups."""
    return chosen(running_engine().groups(), filters, limit)


def get_placement_group(
    id: str, address: str | None = None, timeout: float = 30
) -> StateRow | None:
    """The placement group with this id; None when there is none."""
    return _one("placement_group_id", id, list_placement_groups(limit=_ALL))


_ALL = 1 << 30


def chosen(rows: Iterable[Mapping[str, Any]], filters: Filters, limit: int) -> list[StateRow]:
    """The first rows that all filters let through. Raises ValueError for an unknown predicate."""
    found = [StateRow(row) for row in rows]
    for key, predicate, value in filters or ():
        if predicate not in ("=", "!="):
            raise ValueError(f"Unsupported filter predicate {predicate} is given: '=' or '!='.")
        name = key.lower()
        found = [row for row in found if (_same(row.get(name), value)) is (predicate == "=")]
    return found[:limit]


def _same(have: Any, wanted: Any) -> bool:
    return have == wanted or (have is not None and str(have).lower() == str(wanted).lower())


def _one(key: str, wanted: str, rows: list[StateRow]) -> StateRow | None:
    return next((row for row in rows if row[key] == wanted), None)
