"""The command `ray`: Ray's names for Phalanx's commands.

`phalanx compat ray install` installs it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.adapters.ray.command import jobs as ray_jobs
from phalanx.adapters.ray.command import logs as ray_logs
from phalanx.adapters.ray.command.status import ray_status_text
from phalanx.cli import start as start_command
from phalanx.cli import state
from phalanx.cli import stop as stop_command
from phalanx.cli.command_scripts import install_scripts
from phalanx.cli.ending import exiting
from phalanx.cli.options import Argument, Group, Option
from phalanx.cli.reach import NOT_ALLOWED, USAGE, ask, fail
from phalanx.cli.stacks import stack
from phalanx.cli.table import say, table
from phalanx.cli.typer_form import App, EndingGroup
from phalanx.model.lifecycle import PENDING_CREATION, PENDING_NODE
from phalanx.observe.state.columns import COLUMNS, id_column
from phalanx.observe.state.query import DEFAULT_LIMIT, StateQuery, Value, lets_through
from phalanx.protocol.requests.cluster import GetStatus

app = App(
    name="ray",
    cls=EndingGroup,
    help="Phalanx's version of Ray's command `ray`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ray_jobs.app, name="job")
app.command("logs")(ray_logs.logs)

HEAD_PORT = 6379
"""The default port of a head, as in Ray."""
_IGNORED = {
    *("--autoscaling-config", "--dashboard-agent-grpc-port", "--dashboard-agent-listen-port"),
    *("--dashboard-grpc-port", "--log-color", "--log-style", "--max-worker-port", "--memory"),
    *("--metrics-export-port", "--min-worker-port", "--node-manager-port"),
    *("--object-manager-port", "--plasma-directory", "--ray-client-server-port"),
    *(
        "--ray-debugger-external",
        "--redis-password",
        "--redis-username",
        "--runtime-env-agent-port",
    ),
    *("--system-config", "--temp-dir", "--tracing-startup-hook", "--worker-port-list"),
    *("--grace-period",),
}
"""Options of Ray that take a value and have no effect here; a warning says so."""
_IGNORED_FLAGS = {
    *("--disable-usage-stats", "--enable-object-reconstruction", "--no-monitor", "--verbose", "-v"),
    *("--no-redirect-output", "--ray-debugger-external"),
}
_OTHERS = {"allow_extra_args": True, "ignore_unknown_options": True}
_GONE_EVERY_S = 1.0

Address = Annotated[str | None, typer.Option(help="Address of the cluster's head, as HOST:PORT.")]


def _check_others(given: list[str]) -> None:
    """Warn once about options without effect. End the command for unknown options."""
    ignored, words = [], iter(given)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name in _IGNORED_FLAGS:
            ignored.append(name)
        elif name in _IGNORED:
            ignored.append(name)
            if not has_value:
                next(words, None)
        else:
            fail(f"Phalanx's `ray` has no option {word}.", USAGE)
    if ignored:
        say(f"warning: these options have no effect here: {', '.join(ignored)}", err=True)


@app.callback(invoke_without_command=True)
def ray(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Phalanx's version of Ray's command `ray`."""
    if version:
        from phalanx import __version__
        from phalanx.adapters.ray.alias import RAY_VERSION

        say(f"ray, version {RAY_VERSION} (Phalanx {__version__})")
        raise typer.Exit


@app.command(context_settings=_OTHERS)
def start(
    context: typer.Context,
    head: Annotated[bool, typer.Option("--head", help="Start the head of a new cluster.")] = False,
    address: Annotated[
        str | None, typer.Option(help="Address of the head to join, as HOST:PORT.")
    ] = None,
    port: Annotated[int, typer.Option(help="TCP port of the head.")] = HEAD_PORT,
    node_ip_address: Annotated[
        str, typer.Option(help="IP address of this machine, at which other machines reach it.")
    ] = "127.0.0.1",
    num_cpus: Annotated[
        int | None, typer.Option(help="Number of CPUs of this node (default: all of this machine).")
    ] = None,
    num_gpus: Annotated[
        int | None, typer.Option(help="Number of GPUs of this node (default: all of this machine).")
    ] = None,
    resources: Annotated[
        str | None,
        typer.Option(help="Further resources of this node, as JSON, such as '{\"TPU\": 4}'."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels of this node, as KEY=VALUE, separated by commas: rack=r1,zone=a."
        ),
    ] = None,
    node_name: Annotated[str, typer.Option(help="Name of this node, for display.")] = "",
    object_store_memory: Annotated[
        int | None,
        typer.Option(
            help="Size of the object store in bytes (default: 30% of free memory, but at most the "
            "free part of /dev/shm)."
        ),
    ] = None,
    include_dashboard: Annotated[
        str, typer.Option(help="Start a job server with the head: true or false.")
    ] = "true",
    dashboard_host: Annotated[
        str, typer.Option(help="Address at which the job server listens, without TLS.")
    ] = "127.0.0.1",
    dashboard_port: Annotated[int, typer.Option(help="TCP port of the job server.")] = 8265,
    system_config: Annotated[
        str | None,
        typer.Option(
            help="Settings of the cluster, as JSON, such as '{\"max_lineage_bytes\": 1000000}'."
        ),
    ] = None,
    block: Annotated[
        bool,
        typer.Option(
            "--block",
            help="Stay in the foreground until all processes of the cluster here have ended.",
        ),
    ] = False,
) -> None:
    """Start a cluster with a job server (--head), or a node that joins one (--address)."""
    _check_others(context.args)
    start_command.start(
        token_file=_token_file(),
        head=head,
        address=address,
        host=node_ip_address,
        port=port if head else None,
        store=["memory"] if head else None,  # as in Ray, a new head starts without state
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        labels=[labels] if labels else None,
        node_name=node_name,
        object_store_memory=object_store_memory,
        system_config=system_config,
    )
    if head and include_dashboard.lower() not in ("false", "0"):
        _start_job_server(f"{node_ip_address}:{port}", dashboard_host, dashboard_port)
    if block:
        _wait_for_the_end()


def _token_file() -> str | None:
    """Return the path of a file with the cluster's token, which is derived from Ray's token. Return
    None unless RAY_AUTH_MODE asks for a token.
    """
    from phalanx.adapters.ray.tokens import cluster_token_file
    from phalanx.errors import AuthenticationError

    try:
        return cluster_token_file()
    except AuthenticationError as error:
        fail(str(error), NOT_ALLOWED)


def _start_job_server(named: str, host: str, port: int) -> None:
    from phalanx.adapters.ray.jobs.files import token_file
    from phalanx.adapters.ray.jobs.process import start_server
    from phalanx.errors import PhalanxError
    from phalanx.runtime.daemons.local import local_daemons

    heads = [one.address for _, one in local_daemons() if one.kind == "head"]
    address = named if named in heads else heads[-1]
    try:
        serving = start_server(address, host, port)
    except PhalanxError as error:
        say(f"warning: {error}. The cluster runs without it.", err=True)
        return
    say(f"Jobs:                         ray job submit --address {serving.url} -- COMMAND")
    say(f"The job server's token is in {token_file()}.")


def _wait_for_the_end() -> None:
    from phalanx.runtime.daemons.local import local_daemons

    with contextlib.suppress(KeyboardInterrupt):
        while local_daemons():
            time.sleep(_GONE_EVERY_S)
        return
    stop_command.stop()


@app.command(context_settings=_OTHERS)
def stop(
    context: typer.Context,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Kill the processes at once.")
    ] = False,
) -> None:
    """End this user's heads, nodes and job servers on this machine."""
    from phalanx.adapters.ray.jobs.process import stop_servers

    _check_others(context.args)
    stop_servers()
    stop_command.stop(force=force)


@app.command(context_settings=_OTHERS)
def status(context: typer.Context, address: Address = None) -> None:
    """Show the cluster in Ray's layout: its nodes, the resources in use, and the waiting work."""
    _check_others(context.args)
    wanting = [
        row["required_resources"] or {}
        for kind, waits in _WAITING.items()
        for row in state.query_state(
            address, StateQuery(kind, [("state", "=", waits)], _MOST_DEMANDS, True)
        ).part.rows
    ]
    say(ray_status_text(ask(address, GetStatus()), wanting, datetime.now()))


_WAITING = {"tasks": PENDING_NODE, "actors": PENDING_CREATION}
"""The name of the state in which work waits for a node, by kind of work."""
_MOST_DEMANDS = 10_000


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="Kind of entries to list: actors, cluster-events, jobs, nodes, objects, "
            "placement-groups, tasks, workers."
        ),
    ],
    address: state.Address = None,
    filters: state.Filters = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.")] = DEFAULT_LIMIT,
    format: Annotated[
        str,
        typer.Option(
            help="Output format: table, json, yaml, or default (table, or yaml with --detail)."
        ),
    ] = "default",
    detail: Annotated[bool, typer.Option("--detail", help="Show all fields.")] = False,
    timeout: state.Timeout = state.TIMEOUT_S,
) -> None:
    """List the cluster's nodes, work, objects or events."""
    kind = what.replace("_", "-")
    if kind not in _KINDS:
        fail(f"ray list does not know {what!r}. Give one of {', '.join(_KINDS)}.", USAGE)
    if kind == "jobs":
        rows = _submissions(address, state.parse_filters(filters), limit)
        columns: list[str] = list(_JOB_COLUMNS)
    elif kind == "cluster-events":
        rows = _events(address, state.parse_filters(filters), limit, timeout, detail)
        columns = list(_EVENT_COLUMNS)
    else:
        ours = _KINDS[kind]
        found = state.listing(ours, address, filters, limit, timeout, detail)
        rows, columns = found.part.rows, [c.name for c in COLUMNS[ours] if not c.is_detail]
        if ours == "objects" and any(row.get("call_site") == "disabled" for row in rows):
            say(f"warning: {_NO_SITES}", err=True)
    form = format if format != "default" else "yaml" if detail else "table"
    if form == "table":
        say(_listed(columns, rows))
    elif form in ("json", "yaml"):
        state.echo_data(rows, form, marked=True)
    else:
        fail(f"--format must be default, table, json or yaml, not {format!r}.", USAGE)


_KINDS = {
    "actors": "actors",
    "cluster-events": "",
    "jobs": "",
    "nodes": "nodes",
    "objects": "objects",
    "placement-groups": "groups",
    "tasks": "tasks",
    "workers": "workers",
}
"""The name of Phalanx's listing for each kind of `ray list`; "" for a kind whose rows this module
makes itself.
"""
_NO_SITES = (
    "the places where objects are created are not recorded: set RAY_record_ref_creation_sites=1 "
    "for the program."
)
_EVENT_COLUMNS = ("severity", "time", "source_type", "message", "event_id")
_JOB_COLUMNS = ("submission_id", "entrypoint", "type", "status", "message", "start_time")


def _submissions(
    address: str | None, filters: Sequence[tuple[str, str, Value]], limit: int
) -> list[dict[str, Any]]:
    from phalanx.adapters.ray.jobs.client import JobSubmissionClient

    try:
        rows = [row.dict() for row in JobSubmissionClient(address).list_jobs()]
    except (RuntimeError, OSError) as error:
        fail(str(error))
    return [row for row in rows if lets_through(filters, row)][:limit]


def _events(
    address: str | None,
    filters: Sequence[tuple[str, str, Value]],
    limit: int,
    timeout: float,
    detail: bool,
) -> list[dict[str, Any]]:
    from phalanx.adapters.ray.modules.state_api import list_cluster_events

    try:
        return [*list_cluster_events(address, filters, limit, timeout, detail)]
    except (ValueError, OSError) as error:
        fail(str(error))


@app.command()
def get(
    what: Annotated[
        str,
        typer.Argument(
            help="Kind of the entry: actors, nodes, objects, placement-groups, tasks, workers."
        ),
    ],
    id: Annotated[str, typer.Argument(help="Id of the entry, as `ray list` shows it.")],
    address: state.Address = None,
    timeout: state.Timeout = state.TIMEOUT_S,
) -> None:
    """Show all fields of one actor, node, task, object, worker or placement group."""
    ours = _KINDS.get(what.replace("_", "-"))
    if not ours:
        fail(f"ray get {what}: the kinds are {', '.join(k for k in _KINDS if _KINDS[k])}.", USAGE)
    query = StateQuery(ours, [(id_column(ours), "=", id)], 1_000, True, timeout_s=timeout)
    rows = state.query_state(address, query).part.rows
    if not rows:  # as in Ray, this is no error
        say(f"Resource with id={id} not found in the cluster.")
        return
    state.echo_data(rows, "yaml", marked=True)


@app.command("summary")
def summary_(
    what: Annotated[
        str, typer.Argument(help="Kind of entries to count: tasks, actors or objects.")
    ],
    address: state.Address = None,
    timeout: state.Timeout = state.TIMEOUT_S,
) -> None:
    """Count tasks, actors or objects."""
    state.summary_(what, timeout=timeout, address=address)


@app.command()
def memory(address: state.Address = None, timeout: state.Timeout = state.TIMEOUT_S) -> None:
    """Show objects and the processes that hold them."""
    state.memory(timeout=timeout, ids=True, address=address)


@app.command("stack", context_settings=_OTHERS)
def stack_(context: typer.Context, address: state.Address = None) -> None:
    """Print the Python stacks of all drivers and workers."""
    _check_others(context.args)
    stack(address=address)


def _listed(columns: list[str], rows: list[dict[str, Any]]) -> str:
    cells = [[str(n), *(str(row.get(c, "")) for c in columns)] for n, row in enumerate(rows)]
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    head = f"======== List: {now} ========\nStats:\n------------------------------\n"
    text = f"{head}Total: {len(rows)}\n\nTable:\n------------------------------\n"
    return text + table(["", *(c.upper() for c in columns)], cells)


def install(
    directory: Annotated[
        Path,
        Argument(metavar="DIRECTORY", help="Directory to install into; it must be on your PATH."),
    ],
    force: Annotated[
        bool, Option("--force", help="Overwrite an existing `ray` that is not Phalanx's.")
    ] = False,
) -> None:
    """Install Phalanx's version of the command `ray` into a directory."""
    mark = "from phalanx.adapters.ray.command.main import main"
    before = "from phalanx.cli.ray_command import main"  # as version 0.1 wrote it
    calls = {"ray": f"{mark}\nmain()"}
    (file,) = install_scripts(directory, calls, (mark, before), force)
    say(f"{file} now runs Phalanx; check with `ray --version`.")


compat = Group("ray", help="Install Phalanx's version of the command `ray`.", installs=["ray"])
compat.command()(install)


def main() -> None:
    """Run Ray's command line."""
    with exiting():
        app()
