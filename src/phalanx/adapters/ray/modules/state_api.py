"""`ray.util.state`: the listings of `phalanx.util.state`, in Ray's form where Ray's rows differ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from phalanx.adapters.ray.jobs.client import JobSubmissionClient
from phalanx.errors import StateQueryError
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.events import EventInfo
from phalanx.objects.reference import ObjectRef
from phalanx.observe.events import MAX_EVENTS, details, subject
from phalanx.observe.state.columns import trimmed
from phalanx.observe.state.query import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    StateQuery,
    check_query,
    lets_through,
)
from phalanx.util.state import (
    get_actor,
    get_log,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_drivers,
    list_events,
    list_logs,
    list_objects,
    list_placement_groups,
    list_tasks,
    list_workers,
    memory_summary,
    summarize_actors,
    summarize_objects,
    summarize_tasks,
)
from phalanx.util.state import list_nodes as _list_nodes
from phalanx.util.state.listing import TIMEOUT_S
from phalanx.util.state.rows import Filters, StateRow

ActorState = NodeState = TaskState = StateRow
RayStateApiException = StateQueryError


class ServerUnavailable(StateQueryError):
    """The error that Ray raises when the dashboard's server does not answer. Programs catch it."""


DEFAULT_RPC_TIMEOUT = TIMEOUT_S
RAY_MAX_LIMIT_FROM_API_SERVER = MAX_LIMIT


def list_nodes(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """List all nodes, including those that died recently. A draining node is ALIVE, as in Ray."""
    check_query(StateQuery("nodes", list(filters or ()), limit, detail, timeout_s=timeout))
    rows = _list_nodes(address, None, MAX_LIMIT, timeout, True, raise_on_missing_output)
    for row in rows:
        row["state"] = "DEAD" if row["state"] == DEAD else "ALIVE"
    chosen = [row for row in rows if lets_through(filters or (), row)]
    return [StateRow(trimmed("nodes", row, detail)) for row in chosen[:limit]]


def get_node(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the node with this id; None when it does not exist."""
    return next(iter(list_nodes(address, [("node_id", "=", id)], 1, timeout, True)), None)


def list_jobs(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """List drivers (type DRIVER) and submitted jobs (type SUBMISSION)."""
    rows = [_driver_row(row) for row in list_drivers(address, None, MAX_LIMIT, timeout, True)]
    # a cluster that a program started for itself has no job server
    with contextlib.suppress(RuntimeError, OSError):
        rows += [StateRow(job.dict()) for job in JobSubmissionClient(address).list_jobs()]
    return [row for row in rows if lets_through(filters or (), row)][:limit]


def get_job(
    id: str, address: str | None = None, timeout: float = TIMEOUT_S, _explain: bool = False
) -> StateRow | None:
    """Return the job with this submission id; None when it does not exist."""
    found = list_jobs(address, [("submission_id", "=", id)], 1, timeout)
    return next(iter(found), None)


_SEVERE = ("node-lost", "device-bad", "defect", "lost")
_SERIOUS = (
    *("node-away", "node-refused", "node-drained", "device-suspect"),
    *("rules-refused", "element-failed", "infeasible"),
)


def list_cluster_events(
    address: str | None = None,
    filters: Filters = None,
    limit: int = DEFAULT_LIMIT,
    timeout: float = TIMEOUT_S,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[StateRow]:
    """List recent events of the cluster, the oldest first. With `detail`, `custom_fields` has the
    fields of `phalanx.util.state.list_events`. As in Ray, starts of a head and of its first node
    are not listed.
    """
    if not 0 < limit <= MAX_LIMIT:
        raise ValueError(f"limit must be 1 to {MAX_LIMIT:,}, not {limit}")
    events = _without_beginnings(list_events(address, limit=MAX_EVENTS))
    rows = [_event_row(event, detail) for event in events]
    return [row for row in rows if lets_through(filters or (), row)][-limit:]


def _without_beginnings(events: Iterable[EventInfo]) -> Iterator[EventInfo]:
    is_beginning = False
    for event in events:
        if event.kind == "head-began":
            is_beginning = True
        elif is_beginning and event.kind == "node-joined":
            is_beginning = False
        else:
            yield event


def _event_row(event: EventInfo, detail: bool) -> StateRow:
    is_severe = event.kind in _SEVERE or event.state in ("Failed", "Aborted")
    row = StateRow(
        severity="ERROR" if is_severe else "WARNING" if event.kind in _SERIOUS else "INFO",
        time=datetime.fromtimestamp(event.at).isoformat(sep=" ", timespec="milliseconds"),
        source_type="JOBS" if event.job else "RAYLET" if event.node else "GCS",
        message=_message(event),
        event_id=str(event.number),
    )
    if detail:
        row["custom_fields"] = msgspec.structs.asdict(event)
    return row


def _message(event: EventInfo) -> str:
    if event.kind == "infeasible":
        begins = "Error: No available node types can fulfill resource request"
        return f"{begins} {event.name}: {event.why}."
    return f"{event.kind}: {subject(event)}; {details(event)}".rstrip("; ")


def _driver_row(row: StateRow) -> StateRow:
    is_over = row["state"] != "RUNNING"
    return StateRow(
        job_id=row["job_id"],
        submission_id=None,
        entrypoint=row["entrypoint"],
        type="DRIVER",
        status="SUCCEEDED" if is_over else "RUNNING",
        message=None,
        error_type=None,
        start_time=row["start_time_ms"],
        end_time=row["end_time_ms"],
        metadata={},
        runtime_env={},
        driver_info={
            "id": row["job_id"],
            "node_ip_address": None,
            "pid": str(row["pid"]),
        },
    )


def free(object_refs: ObjectRef[Any] | list[ObjectRef[Any]], local_only: bool = False) -> None:
    """Check the arguments, and do nothing else: an object's memory is freed with its last
    reference.
    """
    for ref in object_refs if isinstance(object_refs, list) else [object_refs]:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"free() expects a list of ObjectRef, got {type(ref)}.")


__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "RAY_MAX_LIMIT_FROM_API_SERVER",
    "RayStateApiException",
    "ServerUnavailable",
    "free",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_tasks",
    "list_workers",
    "memory_summary",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
