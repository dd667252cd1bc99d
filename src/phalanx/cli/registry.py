"""Which commands there are: panel, name, where each is defined, and the phrase that help shows.

A command's module is imported when the command is asked for, so that each command starts as fast as
what it does itself. Adapters and other packages add commands by the entry point group
`phalanx.commands`: a function that takes a `typer.Typer` and adds commands to it.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command, or a group of commands, that is imported when it is asked for."""

    target: str
    """`module:name` below `phalanx.cli`: a function, or a `typer.Typer` with further commands."""
    summary: str
    """What `phalanx --help` says in the line of the command."""


RUN = "Run work"
LOOK = "Look at work"
CHANGE = "Change work"
QUEUES = "Queues and shares"
NODES = "Nodes and devices"
TIME = "Time and reservations"
CLUSTER = "The cluster"
PROGRAMS = "Inside programs"
RESEARCH = "Research"

PANELS: dict[str, dict[str, Entry]] = {
    RUN: {
        "run": Entry("jobs:run", "Run a command as a job and show its output."),
        "submit": Entry("jobs:submit", "Submit manifests: jobs, flows, cron jobs, queues."),
        "alloc": Entry("interactive:alloc", "Hold resources and work in them from a shell."),
        "shell": Entry("interactive:shell", "Open a shell inside a running job."),
        "step": Entry("interactive:step", "Run one more command inside a running job."),
        "forward": Entry("interactive:forward", "Forward a local port to a job."),
        "validate": Entry("validate:validate", "Check a manifest without submitting it."),
        "schema": Entry("schema:schema", "Print JSON Schemas of manifests and configuration."),
    },
    LOOK: {
        "jobs": Entry("jobs:jobs", "List jobs."),
        "job": Entry("jobs:job", "Show one job with its members."),
        "logs": Entry("logs:logs", "Print the output of jobs, daemons, workers and actors."),
        "explain": Entry("explain:explain", "Say why something waits, and what would help."),
        "events": Entry("events:events", "List what happened, by whom, and why."),
        "top": Entry("top:top", "Watch nodes, queues and jobs live."),
        "dashboard": Entry("dashboard:dashboard", "Serve the web page of a cluster."),
        "flows": Entry("jobs:flows", "List job flows."),
        "crons": Entry("jobs:crons", "List cron jobs."),
        "history": Entry("history:history", "List finished jobs and what they used."),
        "efficiency": Entry("history:efficiency_", "Show how well a finished job used its share."),
        "report": Entry("history:report", "Sum up usage by user, queue or day."),
    },
    CHANGE: {
        "cancel": Entry("job_changes:cancel", "End jobs."),
        "suspend": Entry("job_changes:suspend", "Stop a running job and free its resources."),
        "resume": Entry("job_changes:resume", "Let a suspended job run again."),
        "requeue": Entry("job_changes:requeue", "End a running job and queue it again."),
        "signal": Entry("job_changes:signal", "Send a signal to a running job."),
        "hold": Entry("job_changes:hold", "Keep pending jobs from starting."),
        "release": Entry("job_changes:release", "Let held jobs start."),
        "update": Entry("job_changes:update", "Change a pending or running job."),
        "resize": Entry("job_changes:resize", "Change how many members a running job has."),
        "delete": Entry("job_changes:delete", "Delete the record of a finished job."),
    },
    QUEUES: {
        "queue": Entry("queues:app", "Create, list, change, open, close and delete queues."),
        "shares": Entry("shares:shares", "Show the fair shares of queues and users."),
        "set-shares": Entry("shares:set_shares", "Set a user's shares in a queue."),
        "priority": Entry("shares:priority", "Show what a pending job's priority is made of."),
        "scheduler": Entry("scheduler:app", "Show and change the scheduler's configuration."),
        "licenses": Entry("reservations:licenses", "List licenses and who holds them."),
        "set-license": Entry("reservations:set_license", "Set how many of a license there are."),
    },
    NODES: {
        "nodes": Entry("cluster:nodes", "List nodes."),
        "devices": Entry("devices:devices", "List GPUs, what they do, and who uses them."),
        "hypernodes": Entry("jobs:hypernodes", "List the network topology of the nodes."),
        "drain": Entry("cluster:drain", "Empty a node, now or by a deadline."),
        "undrain": Entry("cluster:undrain", "Let a drained node take work again."),
        "cordon": Entry("cordons:cordon", "Keep new work away from a node or a GPU."),
        "uncordon": Entry("cordons:uncordon", "Let a node or a GPU take new work again."),
        "set-resource": Entry("cluster:set_resource", "Change an amount that a node offers."),
    },
    TIME: {
        "plan": Entry("planning:plan", "Show which pending work starts where and when."),
        "what-if": Entry("planning:what_if", "Compare the plan with one under a change."),
        "reserve": Entry("reservations:reserve", "Reserve nodes for a period."),
        "unreserve": Entry("reservations:unreserve", "Delete a reservation."),
        "reservations": Entry("reservations:reservations", "List reservations."),
    },
    CLUSTER: {
        "start": Entry("start:start", "Start a cluster here, or join one."),
        "stop": Entry("start:stop", "End the head and the nodes on this machine."),
        "status": Entry("cluster:status", "Show the head, the nodes and their resources."),
        "health": Entry("health:health_", "Show how well the head is."),
        "metrics": Entry("metrics:app", "Write files for Prometheus and Grafana."),
        "snapshot": Entry("jobs:snapshot", "Write the scheduler's state to a file."),
        "replay": Entry("explain:replay", "Decide a recorded scheduling cycle again."),
        "compat": Entry("compat:app", "Install the commands of other systems."),
        "version": Entry("version:version", "Print the version."),
    },
    PROGRAMS: {
        "list": Entry("state:list_", "List tasks, actors, objects, workers and more."),
        "get": Entry("state:get", "Show one task, actor, object or worker."),
        "summary": Entry("state:summary_", "Count tasks, actors or objects by kind and state."),
        "memory": Entry("state:memory", "Show objects in shared memory and who holds them."),
        "stack": Entry("stacks:stack", "Print the Python stacks of drivers and workers."),
        "debug": Entry("debug:debug", "Attach to a task that waits at a breakpoint."),
    },
}
"""The commands of this package, by panel, in the order of `phalanx --help`."""

ENTRIES = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
PANEL_OF = {name: panel for panel, entries in PANELS.items() for name in entries}

IN_OTHER_PACKAGES = {
    "bench": "phalanx-benchmarks",
    "demo": "phalanx-research",
    "simulate": "phalanx-research",
}
"""Commands of packages that are installed apart."""
