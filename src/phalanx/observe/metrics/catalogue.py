"""Every metric of ours: its name, its kind, its labels, and what it says.

Labels are bounded: none names a job, a task, an actor, a user or a process id. Who counts what
stands in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.observe.metrics.definitions import COUNTER, GAUGE, HISTOGRAM, Definition

JOB_SECONDS = tuple(float(2**power) for power in range(19))
"""1 s to three days."""
CYCLE_SECONDS = tuple(1e-4 * 2**power for power in range(19))
"""0.1 ms to 26 s."""
SHORT_SECONDS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
TASK_SECONDS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
FUNCTIONS = 100
"""So many functions are told apart."""
HEAD = "head"
NODE = "node"
"""The label of what each node counts for itself."""


def _counter(said: str, *labels: str, most: int = 1_000) -> Definition:
    return Definition(COUNTER, said, labels, (), most)


def _gauge(said: str, *labels: str) -> Definition:
    return Definition(GAUGE, said, labels)


def _histogram(bounds: tuple[float, ...], said: str, *labels: str) -> Definition:
    return Definition(HISTOGRAM, said, labels, bounds)


_OF_QUEUE = ("queue", "resource", "unit")
_OF_DEVICE = (NODE, "device", "model")

CATALOGUE: Mapping[str, Definition] = {
    # ---- the cluster ---------------------------------------------------------------------------
    "phalanx_head_up": _gauge("Whether the head answers"),
    "phalanx_nodes": _gauge("Nodes", "state"),
    "phalanx_resource_capacity": _gauge("What living nodes have", "resource", "unit"),
    "phalanx_resource_allocated": _gauge("What is allocated of it", "resource", "unit"),
    "phalanx_resource_stranded": _gauge(
        "What is free on nodes into which nothing fits that waits for such", "resource", "unit"
    ),
    "phalanx_node_resource_capacity": _gauge("What a node has", "node", "resource", "unit"),
    "phalanx_node_resource_allocated": _gauge(
        "What is allocated of a node", "node", "resource", "unit"
    ),
    # ---- queues and jobs -----------------------------------------------------------------------
    "phalanx_queue_resource_allocated": _gauge(
        "What gangs and jobs of a queue hold, those of the queues below it included", *_OF_QUEUE
    ),
    "phalanx_queue_resource_requested": _gauge("What they wait for, beside that", *_OF_QUEUE),
    "phalanx_queue_resource_deserved": _gauge(
        "What a queue deserves, where somebody said so", *_OF_QUEUE
    ),
    "phalanx_queue_resource_guarantee": _gauge("What is kept free for a queue", *_OF_QUEUE),
    "phalanx_queue_resource_capability": _gauge("What a queue may use at most", *_OF_QUEUE),
    "phalanx_queue_share_ratio": _gauge(
        "The largest part of any resource of the cluster that a queue holds", "queue"
    ),
    "phalanx_queue_weight": _gauge("Its weight", "queue"),
    "phalanx_queue_open": _gauge("Whether it takes work", "queue"),
    "phalanx_queue_oldest_pending_seconds": _gauge("How long the first of a queue waits", "queue"),
    "phalanx_jobs": _gauge("Jobs", "queue", "state"),
    "phalanx_jobs_pending": _gauge("Jobs that wait, by what they wait for", "queue", "reason"),
    "phalanx_jobs_submitted_total": _counter("Jobs that were submitted", "queue"),
    "phalanx_jobs_finished_total": _counter("Jobs that ended", "queue", "result"),
    "phalanx_jobs_retried_total": _counter(
        "Starts anew of jobs, after a failure or by their requeue rules", "queue"
    ),
    "phalanx_job_wait_seconds": _histogram(
        JOB_SECONDS, "From the submission of a job to its first start", "queue"
    ),
    "phalanx_job_run_seconds": _histogram(
        JOB_SECONDS, "How long a job that ended ran, the last time", "queue"
    ),
    # ---- the scheduler -------------------------------------------------------------------------
    "phalanx_schedule_cycles_total": _counter("Cycles of the scheduler", "result"),
    "phalanx_schedule_cycle_seconds": _histogram(CYCLE_SECONDS, "How long a cycle took"),
    "phalanx_schedule_action_seconds": _histogram(
        CYCLE_SECONDS, "How long an action of a cycle took", "action"
    ),
    "phalanx_schedule_plugin_seconds": _histogram(
        CYCLE_SECONDS,
        "What a plugin took of a cycle in one of its hooks, of a sample of cycles",
        "plugin",
        "hook",
    ),
    "phalanx_snapshot_seconds": _histogram(
        CYCLE_SECONDS, "How long it took to bring what a cycle looks at up to date"
    ),
    "phalanx_gangs_considered_total": _counter("Gangs that waited when a cycle looked, each time"),
    "phalanx_placements_total": _counter("Members of gangs that were given nodes"),
    "phalanx_plan_rejections_total": _counter(
        "Places of a plan that came to nothing for a gang", "reason"
    ),
    "phalanx_preemptions_total": _counter(
        "Gangs of which a cycle took places away", "queue", "action"
    ),
    "phalanx_evicted_members_total": _counter(
        "Members of gangs whose places a cycle took away", "queue", "action"
    ),
    "phalanx_gang_start_seconds": _histogram(
        CYCLE_SECONDS, "From a plan to the last place of a gang that it gives places"
    ),
    "phalanx_start_estimate_error_seconds": _histogram(
        JOB_SECONDS, "How far the start that people were told first was from when a gang got places"
    ),
    "phalanx_config_reloads_total": _counter("Rules of cycles that were set", "result"),
    # ---- the head ------------------------------------------------------------------------------
    "phalanx_store_commit_seconds": _histogram(
        SHORT_SECONDS, "How long the control store took to write what had changed"
    ),
    "phalanx_journal_bytes": _gauge("What waits to be written to the control store"),
    "phalanx_store_bytes": _gauge("The files of the control store on the head's machine"),
    "phalanx_rpc_seconds": _histogram(
        SHORT_SECONDS, "How long the head worked at a request", "method"
    ),
    "phalanx_connections": _gauge("Connections of the head", "kind"),
    "phalanx_defects": _gauge("Errors of the head's own since it started", "kind"),
    "phalanx_actors": _gauge("Actors", "state"),
    "phalanx_actor_restarts_total": _counter("Actors that were started again"),
    "phalanx_placement_groups": _gauge("Placement groups", "state"),
    "phalanx_loop_lag_seconds": _gauge(
        "The longest that a process was late for its next turn, since it was asked last",
        NODE,
        "process",
    ),
    "phalanx_auth_failures_total": _counter(
        "Connections that did not know the token", NODE, "process"
    ),
    "phalanx_frames_rejected_total": _counter(
        "Connections that ended as what came over them was no message", NODE, "process"
    ),
    # ---- tasks and actors ----------------------------------------------------------------------
    "phalanx_tasks": _gauge("Tasks of programs", "state"),
    "phalanx_tasks_finished_total": _counter(
        "Attempts of tasks, and calls of actors, that ended",
        "result",
        "function",
        most=FUNCTIONS,
    ),
    "phalanx_task_queue_seconds": _histogram(
        TASK_SECONDS, "From the submission of a task or call to its begin", "kind"
    ),
    "phalanx_task_run_seconds": _histogram(TASK_SECONDS, "How long it ran", "kind"),
    "phalanx_object_reconstructions_total": _counter(
        "Tasks that ran again as what they had made was lost"
    ),
    # ---- nodes ---------------------------------------------------------------------------------
    "phalanx_leases": _gauge("Workers that are lent", NODE),
    "phalanx_lease_wait_seconds": _histogram(
        SHORT_SECONDS, "From a process's wish for a worker to its lease", NODE
    ),
    "phalanx_workers": _gauge("Worker processes", NODE, "state"),
    "phalanx_worker_starts_total": _counter("Workers that were started", NODE, "result"),
    "phalanx_worker_deaths_total": _counter("Workers that ended", NODE, "reason"),
    "phalanx_object_store_capacity_bytes": _gauge("Shared memory for objects", NODE),
    "phalanx_object_store_used_bytes": _gauge("What of it is written or promised", NODE),
    "phalanx_object_store_spilled_bytes": _gauge("Objects that lie on disk", NODE),
    "phalanx_object_store_pinned_bytes": _gauge(
        "Copies of other nodes' objects that stay until who asked for them has mapped them", NODE
    ),
    "phalanx_objects": _gauge("Objects in shared memory and on disk", NODE),
    "phalanx_object_spills_total": _counter("Objects that were copied to disk", NODE),
    "phalanx_object_evictions_total": _counter(
        "Copies of other nodes' objects that were dropped to make room", NODE
    ),
    "phalanx_object_transfer_bytes_total": _counter(
        "What came from other nodes (in), and was fetched by them (out)", NODE, "direction"
    ),
    # ---- devices -------------------------------------------------------------------------------
    "phalanx_device_allocated_ratio": _gauge("How much of a device is held", *_OF_DEVICE),
    "phalanx_device_utilization_ratio": _gauge(
        "The part of time in which anything ran on it", *_OF_DEVICE
    ),
    "phalanx_device_memory_used_bytes": _gauge("Memory in use on it", *_OF_DEVICE),
    "phalanx_device_memory_bytes": _gauge("Its memory", *_OF_DEVICE),
    "phalanx_device_temperature_celsius": _gauge("Its temperature", *_OF_DEVICE),
    "phalanx_device_power_watts": _gauge("What it draws", *_OF_DEVICE),
    "phalanx_device_ecc_uncorrected_errors": _gauge(
        "Errors of its memory since its driver was loaded", *_OF_DEVICE
    ),
    "phalanx_device_health": _gauge("1 for the state that it is in", *_OF_DEVICE, "state"),
    # ---- the page ------------------------------------------------------------------------------
    "phalanx_dashboard_viewers": _gauge("Pages that are open"),
    "phalanx_http_requests_total": _counter(
        "What the page was asked for", "route", "method", "code"
    ),
    "phalanx_http_request_seconds": _histogram(
        SHORT_SECONDS, "How long an answer of the page took", "route"
    ),
}

OF_NODES: Mapping[str, Definition] = {
    name: msgspec.structs.replace(one, labels=tuple(x for x in one.labels if x != NODE))
    for name, one in CATALOGUE.items()
}
"""The same as nodes and processes have them: who puts all together adds the node's name."""
