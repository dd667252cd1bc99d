"""The columns of each kind of listing, under the names of Ray's state API where Ray has them.

Ids are in hex, times in milliseconds since the epoch, sizes in bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Row = dict[str, Any]


class Column(NamedTuple):
    """A field of the rows of one kind of listing."""

    name: str
    is_detail: bool = False
    """Whether only listings with detail have this column."""
    is_filterable: bool = True


def _columns(usual: str, detail: str = "") -> tuple[Column, ...]:
    """Return the columns with these names, which are separated by blanks. A star after a name means
    that filters cannot use the column.
    """
    return tuple(
        Column(name.rstrip("*"), names is detail, not name.endswith("*"))
        for names in (usual, detail)
        for name in names.split()
    )


COLUMNS: dict[str, tuple[Column, ...]] = {
    "actors": _columns(
        "actor_id class_name state job_id name node_id pid ray_namespace",
        "serialized_runtime_env* required_resources* death_cause* is_detached placement_group_id "
        "repr_name num_restarts* num_restarts_due_to_lineage_reconstruction* "
        "num_restarts_due_to_node_preemption* call_site* label_selector* fallback_strategy* "
        "owner_id worker_id start_time_ms end_time_ms",
    ),
    "drivers": _columns(
        "job_id state pid node_id entrypoint start_time_ms end_time_ms",
        "driver_id namespace queue priority",
    ),
    "files": _columns("file object_size process_id type pid node_id"),
    "gangs": _columns(
        "name queue phase min_members priority",
        "group members* nodes* ports* created* started* preempted",
    ),
    "groups": _columns(
        "placement_group_id name creator_job_id state",
        "bundles* is_detached strategy bundles_to_node_id* stats*",
    ),
    "jobs": _columns(
        "name namespace queue state kind running replicas reason",
        "min pending succeeded failed retries priority position submitted started finished age_s* "
        "annotations*",
    ),
    "nodes": _columns(
        "node_id node_ip is_head_node state state_message node_name resources_total* labels*",
        "start_time_ms end_time_ms resources_available* running waiting port",
    ),
    "objects": _columns(
        "object_id object_size task_status attempt_number reference_type call_site type pid ip",
        "node_id process_id owner_id borrowers* file",
    ),
    "stacks": _columns("process_id type pid node_id thread stack*"),
    "stores": _columns(
        "node_id objects shared_bytes pinned_bytes kept_bytes spilled_objects spilled_bytes "
        "capacity_bytes spilled_total_bytes spills",
        "files*",
    ),
    "tasks": _columns(
        "task_id attempt_number name state job_id actor_id type func_or_class_name parent_task_id "
        "node_id worker_id worker_pid* error_type",
        "language required_resources* runtime_env_info* placement_group_id events* "
        "profiling_data* creation_time_ms start_time_ms end_time_ms task_log_info* "
        "error_message* is_debugger_paused call_site* label_selector* fallback_strategy*",
    ),
    "workers": _columns(
        "worker_id is_alive worker_type exit_type node_id ip pid",
        "exit_detail* worker_launch_time_ms worker_launched_time_ms start_time_ms end_time_ms "
        "debugger_port num_paused_threads job_id actor_id activity resources*",
    ),
}
"""The columns of each kind of listing."""

OF_HEAD = frozenset({"actors", "drivers", "gangs", "groups", "jobs", "nodes"})
"""The kinds that the head lists from its own tables.

For other kinds it asks the nodes. Tasks are listed by the processes that own them, and objects by
the processes that own them or refer to them.
"""
OF_PROCESSES = frozenset({"files", "objects", "stacks", "tasks"})
"""The kinds for which nodes ask their processes."""

_OVER = frozenset({"FINISHED", "FAILED"})


def id_column(kind: str) -> str:
    """Return the column that identifies a row of this kind."""
    return COLUMNS[kind][0].name


def order_of(kind: str, row: Row) -> tuple[Any, ...]:
    """Return the sort key of a row.

    Rows that have not ended come before ended rows, drivers before workers, and larger objects
    before smaller objects. Otherwise rows are ordered by their ids. The latest attempt of a task
    comes before its other attempts.
    """
    # rows come from other processes, so any value may be missing
    own = str(row.get(id_column(kind)))
    if kind == "tasks":
        attempt = row.get("attempt_number")
        return (row.get("state") in _OVER, own, -attempt if isinstance(attempt, int) else 0)
    if kind == "workers":
        return (not row.get("is_alive"), row.get("worker_type") != "DRIVER", own)
    if kind in ("files", "objects"):
        size = row.get("object_size")
        return (-size if isinstance(size, int) else 0, own, str(row.get("pid")))
    if kind == "stacks":
        return (str(row.get("type")), own, row.get("thread") != "MainThread")
    return (row.get("state") == "DEAD", own)


def latest_first(kind: str, row: Row) -> tuple[Any, ...]:
    """Return the sort key by which rows that have not ended come first, followed by the other rows,
    the latest end first.
    """
    ended = row.get("end_time_ms")
    return (
        row.get("state") in _OVER,
        -ended if isinstance(ended, int) else 0,
        str(row.get(id_column(kind))),
    )


def trimmed(kind: str, row: Row, has_detail: bool) -> Row:
    """Return a row with exactly the columns of the listing, in their order. An unknown value is
    None. `has_detail`: whether the columns of `--detail` are included.
    """
    return {c.name: row.get(c.name) for c in COLUMNS[kind] if has_detail or not c.is_detail}
