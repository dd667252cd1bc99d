"""Listings by kind, and single things by their ids."""

from __future__ import annotations

from typing import Any

from phalanx.objects.reference import ObjectRef
from phalanx.observe.state.query import DEFAULT_LIMIT
from phalanx.util.state.rows import Filters, StateRow, one_row, rows

TIMEOUT_S = 30.0


def list_actors(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """All actors, the dead of late too."""
    return rows("actors", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_drivers(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """The programs that use the cluster, those that ended lately too."""
    return rows("drivers", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_gangs(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """Gangs that have not ended."""
    return rows("gangs", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_jobs(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """Jobs that were submitted, oldest first."""
    return rows("jobs", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_nodes(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """All nodes, the dead of late too."""
    return rows("nodes", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_objects(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """The references to objects that processes hold: a row for each process and object."""
    return rows("objects", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_placement_groups(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """All placement groups, those removed lately too."""
    return rows("groups", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_tasks(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """Tasks and calls, a row for each attempt: all that have not ended, and of the others those
    that are remembered."""
    return rows("tasks", address, filters, limit, timeout, detail, raise_on_missing_output)


def list_workers(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """Drivers and workers, those that ended lately too."""
    return rows("workers", address, filters, limit, timeout, detail, raise_on_missing_output)


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
