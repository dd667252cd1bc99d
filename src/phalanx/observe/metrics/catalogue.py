"""Every metric of Phalanx: its name, its kind, its labels, and its meaning.

The values of labels are bounded: no label names a job, a task, an actor, a user or a process id.
docs/reference/metrics.md says which process counts which metric.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.observe.metrics.definitions import COUNTER, GAUGE, HISTOGRAM, Definition

JOB_SECONDS = tuple(float(2**power) for power in range(19))
"""Bounds of the histograms of jobs' times, from 1 s to three days."""
CYCLE_SECONDS = tuple(1e-4 * 2**power for power in range(19))
"""Bounds of the histograms of cycles' times, from 0.1 ms to 26 s."""
SHORT_SECONDS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
TASK_SECONDS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
FUNCTIONS = 100
"""The largest number of functions that are counted separately."""
HEAD = "head"
NODE = "node"
"""The label that names the node where a number was counted."""


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
    "phalanx_resource_capacity": _gauge("Capacity of living nodes", "resource", "unit"),
    "phalanx_resource_allocated": _gauge("Allocated part of the capacity", "resource", "unit"),
    "phalanx_resource_stranded": _gauge(
        "Free amounts on nodes where no work fits that waits for them", "resource", "unit"
    ),
    "phalanx_node_resource_capacity": _gauge("Capacity of a node", "node", "resource", "unit"),
    "phalanx_node_resource_allocated": _gauge(
        "Allocated part of a node's capacity", "node", "resource", "unit"
    ),
    # ---- queues and jobs -----------------------------------------------------------------------
    "phalanx_queue_resource_allocated": _gauge(
        "Amounts held by gangs and jobs of a queue and the queues below it", *_OF_QUEUE
    ),
    "phalanx_queue_resource_requested": _gauge("Amounts that a queue's work waits for", *_OF_QUEUE),
    "phalanx_queue_resource_deserved": _gauge(
        "Amounts that a queue deserves, where declared", *_OF_QUEUE
    ),
    "phalanx_queue_resource_guarantee": _gauge("Amounts kept free for a queue", *_OF_QUEUE),
    "phalanx_queue_resource_capability": _gauge("Most that a queue may hold", *_OF_QUEUE),
    "phalanx_queue_share_ratio": _gauge(
        "The largest part of any resource of the cluster that a queue holds", "queue"
    ),
    "phalanx_queue_weight": _gauge("Weight of a queue", "queue"),
    "phalanx_queue_open": _gauge("Whether a queue takes work", "queue"),
    "phalanx_queue_oldest_pending_seconds": _gauge(
        "Waiting time of the first job of a queue", "queue"
    ),
    "phalanx_jobs": _gauge("Jobs", "queue", "state"),
    "phalanx_jobs_pending": _gauge("Waiting jobs by reason", "queue", "reason"),
    "phalanx_jobs_submitted_total": _counter("Jobs that were submitted", "queue"),
    "phalanx_jobs_finished_total": _counter("Jobs that ended", "queue", "result"),
    "phalanx_jobs_retried_total": _counter(
        "Restarts of jobs, after a failure or by their requeue rules", "queue"
    ),
    "phalanx_job_wait_seconds": _histogram(
        JOB_SECONDS, "Time from the submission of a job to its first start", "queue"
    ),
    "phalanx_job_run_seconds": _histogram(
        JOB_SECONDS, "Length of the last run of each ended job", "queue"
    ),
    # ---- the scheduler -------------------------------------------------------------------------
    "phalanx_schedule_cycles_total": _counter("Cycles of the scheduler", "result"),
    "phalanx_schedule_cycle_seconds": _histogram(CYCLE_SECONDS, "Length of a cycle"),
    "phalanx_schedule_action_seconds": _histogram(
        CYCLE_SECONDS, "Length of an action of a cycle", "action"
    ),
    "phalanx_schedule_plugin_seconds": _histogram(
        CYCLE_SECONDS,
        "Time of a plugin's hook in a cycle, for a sample of cycles",
        "plugin",
        "hook",
    ),
    "phalanx_snapshot_seconds": _histogram(
        CYCLE_SECONDS, "Time to bring the snapshot of a cycle up to date"
    ),
    "phalanx_gangs_considered_total": _counter("Waiting gangs, counted in each cycle"),
    "phalanx_placements_total": _counter("Members of gangs that got nodes"),
    "phalanx_plan_rejections_total": _counter(
        "Places that a plan gave to gangs, but that they did not get", "reason"
    ),
    "phalanx_preemptions_total": _counter("Gangs that lost places to a cycle", "queue", "action"),
    "phalanx_evicted_members_total": _counter(
        "Members of gangs that lost their places to a cycle", "queue", "action"
    ),
    "phalanx_gang_start_seconds": _histogram(
        CYCLE_SECONDS, "Time from a plan until a gang in it has its last place"
    ),
    "phalanx_start_estimate_error_seconds": _histogram(
        JOB_SECONDS, "Difference of a gang's first reported start and its actual start"
    ),
    "phalanx_config_reloads_total": _counter("Scheduler configurations that were set", "result"),
    # ---- the head ------------------------------------------------------------------------------
    "phalanx_store_commit_seconds": _histogram(
        SHORT_SECONDS, "Time of the store to write what had changed"
    ),
    "phalanx_journal_bytes": _gauge("Bytes waiting to be written to the store"),
    "phalanx_store_bytes": _gauge("Size of the store's files on the head's machine"),
    "phalanx_rpc_seconds": _histogram(
        SHORT_SECONDS, "Working time of the head for a request", "method"
    ),
    "phalanx_connections": _gauge("Connections of the head", "kind"),
    "phalanx_defects": _gauge("Internal errors of the head since it started", "kind"),
    "phalanx_actors": _gauge("Actors", "state"),
    "phalanx_actor_restarts_total": _counter("Actors that were started again"),
    "phalanx_placement_groups": _gauge("Placement groups", "state"),
    "phalanx_loop_lag_seconds": _gauge(
        "Largest lag of a process's loop since the last question",
        NODE,
        "process",
    ),
    "phalanx_auth_failures_total": _counter("Connections with a wrong token", NODE, "process"),
    "phalanx_frames_rejected_total": _counter(
        "Connections that ended because of an invalid message", NODE, "process"
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
        TASK_SECONDS, "Time from the submission of a task or call to its start", "kind"
    ),
    "phalanx_task_run_seconds": _histogram(TASK_SECONDS, "Run time of a task or call", "kind"),
    "phalanx_object_reconstructions_total": _counter(
        "Tasks that ran again because their results were lost"
    ),
    # ---- nodes ---------------------------------------------------------------------------------
    "phalanx_leases": _gauge("Workers that are lent", NODE),
    "phalanx_lease_wait_seconds": _histogram(
        SHORT_SECONDS, "Time from a process's request for a worker to its lease", NODE
    ),
    "phalanx_workers": _gauge("Worker processes", NODE, "state"),
    "phalanx_worker_starts_total": _counter("Workers that were started", NODE, "result"),
    "phalanx_worker_deaths_total": _counter("Workers that ended", NODE, "reason"),
    "phalanx_object_store_capacity_bytes": _gauge("Shared memory for objects", NODE),
    "phalanx_object_store_used_bytes": _gauge("Shared memory written or promised", NODE),
    "phalanx_object_store_spilled_bytes": _gauge("Objects on disk", NODE),
    "phalanx_object_store_pinned_bytes": _gauge(
        "Copies of other nodes' objects that stay until their readers have mapped them", NODE
    ),
    "phalanx_objects": _gauge("Objects in shared memory and on disk", NODE),
    "phalanx_object_spills_total": _counter("Objects that were copied to disk", NODE),
    "phalanx_object_evictions_total": _counter(
        "Copies of other nodes' objects that were dropped to make room", NODE
    ),
    "phalanx_object_transfer_bytes_total": _counter(
        "Bytes received from other nodes (in), and fetched by them (out)", NODE, "direction"
    ),
    # ---- devices -------------------------------------------------------------------------------
    "phalanx_device_allocated_ratio": _gauge("Allocated part of a device", *_OF_DEVICE),
    "phalanx_device_utilization_ratio": _gauge(
        "Part of time in which anything ran on the device", *_OF_DEVICE
    ),
    "phalanx_device_memory_used_bytes": _gauge("Memory in use on the device", *_OF_DEVICE),
    "phalanx_device_memory_bytes": _gauge("Memory of the device", *_OF_DEVICE),
    "phalanx_device_temperature_celsius": _gauge("Temperature of the device", *_OF_DEVICE),
    "phalanx_device_power_watts": _gauge("Power that the device draws", *_OF_DEVICE),
    "phalanx_device_ecc_uncorrected_errors": _gauge(
        "Memory errors since the driver was loaded", *_OF_DEVICE
    ),
    "phalanx_device_health": _gauge("1 for the device's present state", *_OF_DEVICE, "state"),
    # ---- the page ------------------------------------------------------------------------------
    "phalanx_dashboard_viewers": _gauge("Open pages of the dashboard"),
    "phalanx_http_requests_total": _counter("Requests to the page", "route", "method", "code"),
    "phalanx_http_request_seconds": _histogram(
        SHORT_SECONDS, "Time of the page to answer", "route"
    ),
}

OF_NODES: Mapping[str, Definition] = {
    name: msgspec.structs.replace(one, labels=tuple(x for x in one.labels if x != NODE))
    for name, one in CATALOGUE.items()
}
"""The metrics of nodes and processes, without the label `node`, which the collector adds."""
