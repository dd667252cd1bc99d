"""Listings of each kind, and queries for single things by their ids."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.observe.state.query import DEFAULT_LIMIT
from phalanx.util.state.rows import Filters, StateRow, one_row, rows

TIMEOUT_S = 30.0


class Listing(Protocol):
    """The type of the functions that list state. They all have these arguments and this result."""

    def __call__(
        self,
        address: str | None = None,
        filters: Filters = None,
        limit: int = DEFAULT_LIMIT,
        timeout: float = TIMEOUT_S,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[StateRow]:
        """Return at most `limit` rows that meet the `filters`. With `detail`, the rows have all
        their columns.

        When a process has not answered after `timeout` seconds, StateQueryError is raised. With
        `raise_on_missing_output=False`, the rows of the other processes are returned instead. With
        `_explain`, a UserWarning says what is left out.
        """
        ...


def _listing(kind: str, name: str, meaning: str) -> Listing:
    def listing(
        address: str | None = None,
        filters: Filters = None,
        limit: int = DEFAULT_LIMIT,
        timeout: float = TIMEOUT_S,
        detail: bool = False,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[StateRow]:
        whole = raise_on_missing_output
        return rows(kind, address, filters, limit, timeout, detail, whole, _explain)

    listing.__name__ = listing.__qualname__ = name
    listing.__doc__ = meaning
    return listing


list_actors = _listing(
    "actors", "list_actors", "Return all actors, including those that died recently."
)
list_drivers = _listing(
    "drivers",
    "list_drivers",
    "Return the programs that use the cluster, including those that ended recently.",
)
list_gangs = _listing("gangs", "list_gangs", "Return the gangs that have not ended.")
list_jobs = _listing("jobs", "list_jobs", "Return the submitted jobs, oldest first.")
list_nodes = _listing(
    "nodes", "list_nodes", "Return all nodes, including those that died recently."
)
list_objects = _listing(
    "objects",
    "list_objects",
    "Return the references to objects that processes hold: one row for each process and object.",
)
list_placement_groups = _listing(
    "groups",
    "list_placement_groups",
    "Return all placement groups, including those that were removed recently.",
)
list_tasks = _listing(
    "tasks",
    "list_tasks",
    "Return tasks and calls, one row for each attempt: all that have not ended, and those that "
    "have ended and are still remembered.",
)
list_workers = _listing(
    "workers", "list_workers", "Return drivers and workers, including those that ended recently."
)


def get_actor(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the actor with this id; None if there is none."""
    return next(iter(one_row("actors", id, address, timeout)), None)


def get_job(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the job with this name; None if there is none."""
    return next(iter(one_row("jobs", id, address, timeout)), None)


def get_node(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the node with this id; None if there is none."""
    return next(iter(one_row("nodes", id, address, timeout)), None)


def get_placement_group(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the placement group with this id; None if there is none."""
    return next(iter(one_row("groups", id, address, timeout)), None)


def get_worker(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the worker with this id; None if there is none."""
    return next(iter(one_row("workers", id, address, timeout)), None)


def get_task(
    id: str | ObjectRef[Any],
    address: str | None = None,
    timeout: float = TIMEOUT_S,
    _explain: bool = False,
) -> StateRow | list[StateRow] | None:
    """Return the task with this id, or the task that makes the object with this id; None if it is
    not known.

    If the task has several attempts, they are returned as a list, the latest first.
    """
    wanted = id if isinstance(id, str) else id.task_id().hex()
    found = one_row("tasks", wanted, address, timeout)
    return found if len(found) > 1 else next(iter(found), None)


def get_objects(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> list[StateRow]:
    """Return the references to the object with this id, one for each process that has one."""
    return one_row("objects", id, address, timeout)
