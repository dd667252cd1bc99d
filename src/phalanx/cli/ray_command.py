"""The command `ray`: Ray's names for our own commands; `phalanx compat ray install` puts it up."""

from __future__ import annotations

import contextlib
import json as json_module
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli import cluster, ray_jobs
from phalanx.cli import start as ours
from phalanx.cli.reach import FAILED, USAGE, ask, fail
from phalanx.cli.table import say, table
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo

app = typer.Typer(
    name="ray",
    help="Ray's commands, run by Phalanx.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ray_jobs.app, name="job")

HEAD_PORT = 6379
"""Ray's own."""
_IGNORED = {
    *("--autoscaling-config", "--dashboard-agent-grpc-port", "--dashboard-agent-listen-port"),
    *("--dashboard-grpc-port", "--log-color", "--log-style", "--max-worker-port", "--memory"),
    *("--metrics-export-port", "--min-worker-port", "--node-manager-port", "--node-name"),
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
"""Options of Ray's with a value that changes nothing here; a warning says so."""
_IGNORED_FLAGS = {
    *("--disable-usage-stats", "--enable-object-reconstruction", "--no-monitor", "--verbose", "-v"),
    *("--no-redirect-output", "--ray-debugger-external"),
}
_OTHERS = {"allow_extra_args": True, "ignore_unknown_options": True}
_GONE_EVERY_S = 1.0

Address = Annotated[str | None, typer.Option(help="HOST:PORT of the head.")]


def _check_others(given: list[str]) -> None:
    """Warn of options that change nothing, once; end the command for those that nobody knows."""
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
            fail(f"Phalanx's `ray` has no {word}.", USAGE)
    if ignored:
        say(f"warning: no effect here: {', '.join(ignored)}", err=True)


@app.callback(invoke_without_command=True)
def ray(version: Annotated[bool, typer.Option("--version", help="Print it.")] = False) -> None:
    """Ray's commands, run by Phalanx."""
    if version:
        from phalanx import __version__
        from phalanx.compat.ray import RAY_VERSION

        say(f"ray, version {RAY_VERSION} (Phalanx {__version__})")
        raise typer.Exit


@app.command(context_settings=_OTHERS)
def start(
    context: typer.Context,
    head: Annotated[bool, typer.Option("--head", help="Start a cluster.")] = False,
    address: Annotated[str | None, typer.Option(help="Join the head at HOST:PORT.")] = None,
    port: Annotated[int, typer.Option(help="Of the head.")] = HEAD_PORT,
    node_ip_address: Annotated[str, typer.Option(help="This machine's address.")] = "127.0.0.1",
    num_cpus: Annotated[int | None, typer.Option(help="Default: what is here.")] = None,
    num_gpus: Annotated[int | None, typer.Option(help="Default: what is here.")] = None,
    resources: Annotated[str | None, typer.Option(help="Further amounts, as JSON.")] = None,
    labels: Annotated[str | None, typer.Option(help="KEY=VALUE,... of this node.")] = None,
    object_store_memory: Annotated[int | None, typer.Option(help="Bytes.")] = None,
    include_dashboard: Annotated[
        str, typer.Option(help="Whether the head has a job server: true or false.")
    ] = "true",
    dashboard_host: Annotated[
        str, typer.Option(help="Where the job server listens; it speaks no TLS.")
    ] = "127.0.0.1",
    dashboard_port: Annotated[int, typer.Option(help="Of the job server.")] = 8265,
    block: Annotated[bool, typer.Option("--block", help="Wait for the end.")] = False,
) -> None:
    """Start a cluster with a job server (--head), or a node that joins one (--address)."""
    _check_others(context.args)
    ours.start(
        head=head,
        address=address,
        host=node_ip_address,
        port=port if head else None,
        store=["memory"] if head else None,  # as with Ray, a new head knows nothing
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        labels=[labels] if labels else None,
        object_store_memory=object_store_memory,
    )
    if head and include_dashboard.lower() not in ("false", "0"):
        _start_job_server(f"{node_ip_address}:{port}", dashboard_host, dashboard_port)
    if block:
        _wait_for_the_end()


def _start_job_server(named: str, host: str, port: int) -> None:
    from phalanx.compat.jobs.files import token_file
    from phalanx.compat.jobs.process import start_server
    from phalanx.engines.embedded.daemons import local_daemons
    from phalanx.errors import PhalanxError

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
    from phalanx.engines.embedded.daemons import local_daemons

    with contextlib.suppress(KeyboardInterrupt):
        while local_daemons():
            time.sleep(_GONE_EVERY_S)
        return
    ours.stop()


@app.command(context_settings=_OTHERS)
def stop(
    context: typer.Context,
    force: Annotated[bool, typer.Option("--force", "-f", help="Kill at once.")] = False,
) -> None:
    """End this user's heads, nodes and job servers on this machine."""
    from phalanx.compat.jobs.process import stop_servers

    _check_others(context.args)
    stop_servers()
    ours.stop(force=force)


@app.command(context_settings=_OTHERS)
def status(context: typer.Context, address: Address = None) -> None:
    """Show the cluster: its nodes, and what is used."""
    _check_others(context.args)
    cluster.status(address)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="nodes, actors, jobs or placement-groups.")],
    address: Address = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", "-f", help="KEY=VALUE or KEY!=VALUE.")
    ] = None,
    limit: Annotated[int, typer.Option(help="So many at most.")] = 100,
    format: Annotated[str, typer.Option(help="table, json or yaml.")] = "table",
    detail: Annotated[bool, typer.Option("--detail", help="All fields.")] = False,
) -> None:
    """List what a cluster has. Tasks, objects and workers are known to their owners alone."""
    from phalanx.compat.ray_modules.state_api import chosen

    kind = what.replace("_", "-")
    if kind in ("tasks", "objects", "workers"):
        fail(
            f"ray list {kind}: no process of a cluster knows them all. In a program, "
            f"ray.util.state lists what it has started.",
            FAILED,
        )
    if kind not in _COLUMNS:
        fail(f"ray list {what}: there are {', '.join(_COLUMNS)}.", USAGE)
    pairs = []
    for text in filters or ():
        key, sign, value = text.partition("!=" if "!=" in text else "=")
        if not sign:
            fail(f"--filter takes KEY=VALUE or KEY!=VALUE, not {text!r}.", USAGE)
        pairs.append((key.strip(), sign, value.strip()))
    rows = [dict(row) for row in chosen(_rows(kind, address), pairs, limit)]
    if format == "json":
        typer.echo(json_module.dumps(rows, indent=1, default=str))
    elif format == "yaml":
        import yaml

        plain = json_module.loads(json_module.dumps(rows, default=str))
        typer.echo(yaml.safe_dump_all(plain, sort_keys=False), nl=False)
    else:
        typer.echo(_listed(kind, rows, detail))


_COLUMNS = {
    "nodes": ("node_id", "node_ip", "is_head_node", "state", "state_message", "node_name"),
    "actors": ("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid"),
    "jobs": ("submission_id", "entrypoint", "type", "status", "message", "start_time"),
    "placement-groups": ("placement_group_id", "name", "state", "creator_job_id"),
}
"""What a table shows of each kind; more with --detail."""


def _rows(kind: str, address: str | None) -> list[dict[str, Any]]:
    from phalanx.compat.jobs.client import JobSubmissionClient
    from phalanx.protocol.requests.actors import ListActors
    from phalanx.protocol.requests.cluster import GetStatus
    from phalanx.protocol.requests.groups import ListGroups

    if kind == "nodes":
        return [_node(row) for row in ask(address, GetStatus()).nodes]
    if kind == "actors":
        return [dict(row) for row in ask(address, ListActors())]
    if kind == "placement-groups":
        return ask(address, ListGroups())
    try:
        return [row.dict() for row in JobSubmissionClient(address).list_jobs()]
    except (RuntimeError, OSError) as error:
        fail(str(error))


def _node(row: NodeInfo) -> dict[str, Any]:
    return {
        "node_id": row.node_id,
        "node_ip": row.host,
        "is_head_node": "node:__internal_head__" in row.total,
        "state": "DEAD" if row.state == DEAD else "ALIVE",
        "state_message": row.reason,
        "node_name": row.host,
        "resources_total": row.total,
        "labels": row.labels,
    }


def _listed(kind: str, rows: list[dict[str, Any]], detail: bool) -> str:
    columns = list(rows[0]) if detail and rows else list(_COLUMNS[kind])
    cells = [[str(n), *(str(row.get(c, "")) for c in columns)] for n, row in enumerate(rows)]
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    head = f"======== List: {now} ========\nStats:\n------------------------------\n"
    text = f"{head}Total: {len(rows)}\n\nTable:\n------------------------------\n"
    return text + table(["", *(c.upper() for c in columns)], cells)


def install(
    directory: Annotated[Path, typer.Argument(help="One that is on your PATH.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also over a `ray` that is not ours.")
    ] = False,
) -> None:
    """Put a command `ray` there that is Phalanx."""
    file = directory / "ray"
    mark = "from phalanx.cli.ray_command import main"
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        if mark not in file.read_text() and not force:
            fail(f"{file} is there already, and is another `ray`: --force writes over it.", USAGE)
    root = Path(__file__).resolve().parent.parent.parent
    lines = ("import sys", f"sys.path.append({str(root)!r})", mark, "main()")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join((f"#!{sys.executable}", *lines, "")))
        file.chmod(0o755)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    say(f"{file} is Phalanx; `ray --version` says so.")


compat = typer.Typer(name="compat", help="Phalanx under other names.", no_args_is_help=True)
_of_ray = typer.Typer(name="ray", help="Ray's command.", no_args_is_help=True)
_of_ray.command()(install)
_of_ray.callback()(lambda: None)
compat.add_typer(_of_ray)


def main() -> None:
    """Run Ray's command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
