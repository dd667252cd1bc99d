"""Listings by kind, and single things by their ids."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.observe.state.query import DEFAULT_LIMIT
from phalanx.util.state.rows import Filters, StateRow, one_row, rows

TIMEOUT_S = 30.0


class Listing(Protocol):
    """What all listings take and give."""

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
        """At most `limit` rows that `filters` let through, all columns with `detail`. Where
        somebody has not answered after `timeout` seconds it raises StateQueryError, or with
        `raise_on_missing_output=False` gives the rows of the others. With `_explain` a UserWarning
        says what is left out."""
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


list_actors = _listing("actors", "list_actors", "All actors, the dead of late too.")
list_drivers = _listing(
    "drivers", "list_drivers", "The programs that use the cluster, those that ended lately too."
)
list_gangs = _listing("gangs", "list_gangs", "Gangs that have not ended.")
list_jobs = _listing("jobs", "list_jobs", "Jobs that were submitted, oldest first.")
list_nodes = _listing("nodes", "list_nodes", "All nodes, the dead of late too.")
list_objects = _listing(
    "objects",
    "list_objects",
    "The references to objects that processes hold: a row for each process and object.",
)
list_placement_groups = _listing(
    "groups", "list_placement_groups", "All placement groups, those removed lately too."
)
list_tasks = _listing(
    "tasks",
    "list_tasks",
    "Tasks and calls, a row for each attempt: all that have not ended, and of the others those "
    "that are remembered.",
)
list_workers = _listing(
    "workers", "list_workers", "Drivers and workers, those that ended lately too."
)


def get_actor(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """The actor with this id; None when there is none."""
    return next(iter(one_row("actors", id, address, timeout)), None)


def get_job(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """The job with this name; None when there is none."""
    return next(iter(one_row("jobs", id, address, timeout)), None)


def get_node(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """The node with this id; None when there is none."""
    return next(iter(one_row("nodes", id, address, timeout)), None)


def get_placement_group(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """The placement group with this id; None when there is none."""
    return next(iter(one_row("groups", id, address, timeout)), None)


def get_worker(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """The worker with this id; None when there is none."""
    return next(iter(one_row("workers", id, address, timeout)), None)


def get_task(
    id: str | ObjectRef[Any],
    address: str | None = None,
    timeout: float = TIMEOUT_S,
    _explain: bool = False,
) -> StateRow | list[StateRow] | None:
    """The task with this id, or that makes this object: a list of its attempts, the latest first,
    when there are several; None when it is not known."""
    wanted = id if isinstance(id, str) else id.task_id().hex()
    found = one_row("tasks", wanted, address, timeout)
    return found if len(found) > 1 else next(iter(found), None)


def get_objects(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> list[StateRow]:
    """The references to the object with this id, one for each process that holds one."""
    return one_row("objects", id, address, timeout)
