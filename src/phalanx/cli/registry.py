"""The table of commands: the panel, the name, the place of the definition and a one-line summary of
each.

A command's module is imported only when the command is used, so that no command waits for the
imports of others. Adapters and other packages add commands by an entry point of the group
`phalanx.commands`. The entry point is a function that gets an `options.Registrar`, and adds
commands to it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

HELP = "Tasks, actors and gangs on shared CPUs and GPUs."
"""The first line of the help."""


class Entry(NamedTuple):
    """A command or a group of commands, which is imported when it is used."""

    target: str
    """The object that `definition` returns, as `module:name` with a module in `phalanx.cli`."""
    summary: str
    """The line of the command in `phalanx --help`."""


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
        "run": Entry("run:run", "Run a command as a job and print its output."),
        "submit": Entry(
            "submit:submit", "Submit manifests of jobs, queues, flows and other objects."
        ),
        "alloc": Entry(
            "interactive:alloc", "Hold resources while a shell runs, for `phalanx step`."
        ),
        "shell": Entry("interactive:shell", "Open a shell inside a running job."),
        "step": Entry("interactive:step", "Run one more command inside a running job."),
        "forward": Entry("interactive:forward", "Forward a local port to a job."),
        "validate": Entry("validate:validate", "Check manifests without submitting them."),
        "schema": Entry("schema:schema", "Print JSON Schemas of manifests and configuration."),
    },
    LOOK: {
        "jobs": Entry("job_list:jobs", "List jobs."),
        "job": Entry("jobs:job", "Show one job with its members."),
        "logs": Entry("logs:logs", "Print the output of jobs, daemons, workers and actors."),
        "explain": Entry(
            "explain:explain", "Explain why work waits, and which changes would help."
        ),
        "events": Entry("events:events", "List events: what happened, by whom, and why."),
        "top": Entry("top:top", "Watch nodes, queues and jobs live."),
        "dashboard": Entry("dashboard:dashboard", "Serve the web page of a cluster."),
        "flows": Entry("jobs:flows", "List flows and the states of their jobs."),
        "crons": Entry("jobs:crons", "List cron jobs."),
        "history": Entry("history:history", "List finished attempts of jobs and what they used."),
        "efficiency": Entry(
            "history:efficiency_", "Show how well a finished job used its resources."
        ),
        "report": Entry("history:report", "Sum up usage by user and queue."),
    },
    CHANGE: {
        "cancel": Entry("job_changes:cancel", "Cancel jobs."),
        "suspend": Entry(
            "job_changes:suspend",
            "End the members of jobs, and keep the jobs for `phalanx resume`.",
        ),
        "resume": Entry("job_changes:resume", "Start suspended jobs again."),
        "requeue": Entry("job_changes:requeue", "End running jobs and queue them again."),
        "signal": Entry("job_changes:signal", "Send a signal to a running job."),
        "hold": Entry("job_changes:hold", "Keep pending jobs from starting."),
        "release": Entry("job_changes:release", "Let held jobs start."),
        "update": Entry("job_changes:update", "Change a pending job."),
        "resize": Entry("job_changes:resize", "Change the number of members of a job."),
        "delete": Entry("job_changes:delete", "Delete jobs, flows, cron jobs or HyperNodes."),
    },
    QUEUES: {
        "queues": Entry("queues:list_queues", "List queues, as `queue list` does."),
        "queue": Entry("queues:app", "Create, list, change, open, close and delete queues."),
        "shares": Entry(
            "shares:shares", "Show users' shares in queues, their use and their order."
        ),
        "set-shares": Entry("shares:set_shares", "Set a user's shares in a queue."),
        "limits": Entry("limits:limits", "List the limits of users in queues."),
        "set-limits": Entry("limits:set_limits", "Set the limits of a user in a queue."),
        "priority": Entry(
            "shares:priority", "Show the order in which jobs wait, and what decides it."
        ),
        "scheduler": Entry("scheduler:app", "Show and change the scheduler's configuration."),
        "licenses": Entry("reservations:licenses", "List licenses and the jobs that hold them."),
        "set-license": Entry("reservations:set_license", "Set how many licenses the cluster has."),
    },
    NODES: {
        "nodes": Entry("cluster:nodes", "List nodes."),
        "devices": Entry("devices:devices", "List GPUs with their health, use and holders."),
        "hypernodes": Entry("jobs:hypernodes", "List the network topology of the nodes."),
        "drain": Entry(
            "cluster:drain", "Keep new work away from a node; with --deadline, also end its work."
        ),
        "undrain": Entry("cluster:undrain", "Let a drained node take work again."),
        "cordon": Entry("cordons:cordon", "Keep new work away from a node or a GPU."),
        "uncordon": Entry("cordons:uncordon", "Let a node or a GPU take new work again."),
        "set-resource": Entry("cluster:set_resource", "Set how much of a resource a node offers."),
    },
    TIME: {
        "plan": Entry(
            "planning:plan", "Show the forecast: when and where pending work is expected to start."
        ),
        "what-if": Entry(
            "planning:what_if", "Compare expected start times with and without a change."
        ),
        "reserve": Entry("reservations:reserve", "Reserve nodes, GPUs or CPUs for a period."),
        "unreserve": Entry("reservations:unreserve", "Delete a reservation."),
        "reservations": Entry("reservations:reservations", "List reservations."),
    },
    CLUSTER: {
        "start": Entry("start:start", "Start a cluster on this machine, or join one."),
        "stop": Entry("stop:stop", "End your heads and nodes on this machine."),
        "up": Entry("up:up", "Install and start a cluster on many machines, over ssh."),
        "down": Entry("up:down", "End a cluster's daemons on many machines, over ssh."),
        "install": Entry("install:install", "Install Phalanx's systemd services (with --apply)."),
        "uninstall": Entry(
            "install:uninstall", "Remove Phalanx's systemd services (with --apply)."
        ),
        "restart": Entry(
            "restart:restart", "Restart this machine's node processes while jobs run."
        ),
        "provision": Entry(
            "provision:provision",
            "Start machines when work waits for nodes, and end idle machines.",
        ),
        "login": Entry("login:login", "Log in to a cluster on another machine."),
        "logout": Entry("login:logout", "Forget a login and its token."),
        "whoami": Entry("login:whoami", "Show the current cluster, and your user and role there."),
        "status": Entry("cluster:status", "Show the head, the nodes and their resources."),
        "health": Entry("health:health_", "Show whether the head works well."),
        "config": Entry("config:app", "Check, show and explain the configuration."),
        "doctor": Entry("doctor:doctor", "Check whether this machine can run Phalanx."),
        "can": Entry("rights:can", "Show whether you may do something, and by which rule."),
        "audit": Entry("rights:audit", "List changes and refused requests: by whom, from where."),
        "roles": Entry("rights:roles", "List the users who were given a role."),
        "token": Entry("tokens:app", "Create, list, rotate and revoke tokens."),
        "set-role": Entry("rights:set_role", "Give a user a role in a shared cluster."),
        "metrics": Entry("metrics:app", "Print configuration for Prometheus and Grafana."),
        "backup": Entry("backup:backup", "Copy the head's store into a file."),
        "restore": Entry("backup:restore", "Restore a backup as the head's store."),
        "snapshot": Entry("jobs:snapshot", "Write the scheduler's state to a file."),
        "replay": Entry("explain:replay", "Run scheduling cycles on a snapshot file."),
        "compat": Entry("compat:app", "Install Phalanx's versions of Slurm's and Ray's commands."),
        "help": Entry("help:help_", "Show the help of a command."),
        "version": Entry("version:version", "Print the version."),
    },
    PROGRAMS: {
        "list": Entry("state:list_", "List tasks, actors, objects, workers and more."),
        "get": Entry("state:get", "Show one task, actor, object or worker."),
        "summary": Entry(
            "state:summary_", "Count tasks, actors or objects in groups, with their states."
        ),
        "memory": Entry("state:memory", "Show objects and the processes that hold them."),
        "stack": Entry("stacks:stack", "Print the Python stacks of drivers and workers."),
        "symmetric-run": Entry(
            "symmetric:symmetric_run",
            "Start a cluster on a job's members, and run a program on it.",
        ),
        "debug": Entry("debug:debug", "Debug a task or actor that waits at a breakpoint."),
    },
}
"""The commands of this package by panel, in the order of `phalanx --help`."""

ENTRIES = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
PANEL_OF = {name: panel for panel, entries in PANELS.items() for name in entries}

IN_OTHER_PACKAGES = {
    "bench": "phalanx-benchmarks",
    "demo": "phalanx-research",
    "docs": "phalanx-docs",
    "simulate": "phalanx-research",
}
"""Commands of packages that are installed separately, with the names of the packages."""


def definition(name: str) -> Any:
    """Import and return a command of the registry: a function, a `Group` or an app of Typer."""
    module, _, attribute = ENTRIES[name].target.partition(":")
    return getattr(import_module(f"phalanx.cli.{module}"), attribute)
