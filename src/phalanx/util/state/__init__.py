"""The state of a cluster: tasks, actors, objects, workers, nodes, jobs, gangs, drivers.

The functions have the names, arguments and columns of Ray's state API where Ray has them. Every
listing covers the whole cluster: tasks are reported by the processes that own them, and objects by
the processes that own them or refer to them. Rows are dicts whose keys can also be read as
attributes.

    running = list_tasks(filters=[("state", "=", "RUNNING")])
    names = [task.name for task in running]
"""

from __future__ import annotations

from phalanx.errors import StateQueryError
from phalanx.util.state.events import list_events
from phalanx.util.state.listing import (
    get_actor,
    get_job,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_drivers,
    list_gangs,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_tasks,
    list_workers,
)
from phalanx.util.state.logs import get_log, list_logs
from phalanx.util.state.rows import StateRow
from phalanx.util.state.summaries import (
    memory_summary,
    summarize_actors,
    summarize_objects,
    summarize_tasks,
)

__all__ = [
    "StateQueryError",
    "StateRow",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_drivers",
    "list_events",
    "list_gangs",
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
