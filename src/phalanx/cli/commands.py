"""One function a command; what each does lives in the package it names."""

from __future__ import annotations

import json as json_module
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from phalanx.cli import (
    history,
    interactive,
    job_changes,
    jobs,
    metrics,
    queues,
    ray_command,
    reservations,
    scheduler,
    shares,
    state,
)
from phalanx.cli.cluster import drain, nodes, set_resource, status, undrain
from phalanx.cli.cordons import cordon, uncordon
from phalanx.cli.dashboard import dashboard
from phalanx.cli.debug import debug
from phalanx.cli.devices import devices
from phalanx.cli.events import events
from phalanx.cli.health import health_
from phalanx.cli.logs import logs
from phalanx.cli.planning import plan, what_if
from phalanx.cli.reach import ask
from phalanx.cli.schema import schema
from phalanx.cli.simulate import simulate
from phalanx.cli.slurm import main as slurm
from phalanx.cli.stacks import stack
from phalanx.cli.start import start, stop
from phalanx.cli.table import drop_output, say
from phalanx.cli.top import top
from phalanx.cli.validate import validate

app = typer.Typer(
    name="phalanx",
    help="Tasks, actors and gangs on shared CPUs and GPUs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@app.command()
def demo(
    trials: Annotated[int, typer.Option(min=1, help="Settings that the search tries.")] = 24,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Training actors (default: one a CPU).")
    ] = None,
    json: Json = False,
) -> None:
    """Search and train on real handwritten digits, as tasks, actors and shared objects."""
    from phalanx.demo import run

    raise typer.Exit(run(trials=trials, workers=workers, json=json))


@app.command()
def bench(
    peer: Annotated[
        str | None,
        typer.Option(
            help="Measure these systems beside, row by row: ray, multiprocessing, "
            "concurrent.futures, joblib, dask, parsl; several with commas."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--row", help="Only rows whose name contains this.")
    ] = None,
    group: Annotated[
        str,
        typer.Option(
            help="engine, placement, batch, plan, cluster, nodes, scheduling, store, transfer, "
            "gangs, simulator, or all; release (Ray's release benchmarks), history, scale, "
            "processes, objects or day take minutes, and are not in all."
        ),
    ] = "engine",
    quick: Annotated[bool, typer.Option(help="Shorter measurements.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the table for a document.")] = False,
    json: Json = False,
) -> None:
    """Measure beside Ray and other pools, and how fast placement and batch decide."""
    from phalanx.bench.command import run

    code = run(peer, json=json, markdown=markdown, rows=rows, quick=quick, group=group)
    raise typer.Exit(code)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="A snapshot, or a file of several.")],
    cycles: Annotated[int, typer.Option(min=1, help="Run so many cycles on end.")] = 1,
    json: Json = False,
) -> None:
    """Decide a recorded cycle again, without touching anything. Exit 1 when it differs."""
    from phalanx.cli.snapshots import replay_file

    raise typer.Exit(replay_file(str(file), as_json=json, cycles=cycles))


@app.command()
def explain(
    file: Annotated[
        str,
        typer.Argument(help="A job, gang, flow or cron job of the cluster; or a snapshot file."),
    ],
    name: Annotated[
        str | None, typer.Argument(help="A task or podgroup of the file (default: all).")
    ] = None,
    actor: Annotated[
        bool, typer.Option("--actor", help="It is an actor, by its name or its id.")
    ] = False,
    address: jobs.Address = None,
    json: Json = False,
) -> None:
    """Say why a job, task, podgroup or actor waits, and what would have to change."""
    from phalanx.cli.snapshots import explain_file
    from phalanx.protocol.requests.actors import ExplainActor
    from phalanx.protocol.requests.gangs import Explain

    # os.path: Path.exists raises for what can be no file's name.
    if name is not None or os.path.exists(file) or file.endswith((".json", ".yaml", ".yml")):
        raise typer.Exit(explain_file(file, name, as_json=json))
    answer = ask(address, ExplainActor(file) if actor else Explain(file))
    if json:
        typer.echo(json_module.dumps(msgspec.to_builtins(answer), indent=1))
    else:
        say(str(answer))


for command in (start, stop, status, nodes, devices, drain, undrain, cordon, uncordon):
    app.command()(command)
app.command()(reservations.reserve)
app.command()(reservations.unreserve)
app.command()(reservations.reservations)
app.command("set-license")(reservations.set_license)
app.command()(reservations.licenses)
app.command()(shares.shares)
app.command("set-shares")(shares.set_shares)
app.command()(shares.priority)
app.command("set-resource")(set_resource)
app.command("list")(state.list_)
app.command()(state.get)
app.command("summary")(state.summary_)
app.command()(state.memory)
app.command()(stack)
app.command()(jobs.submit)
app.command()(jobs.run)
slurm.register(app)
app.command()(interactive.shell)
app.command()(interactive.step)
app.command()(interactive.alloc)
app.command()(interactive.forward)
app.command()(jobs.jobs)
app.command()(jobs.job)
app.command()(logs)
app.command()(events)
app.command("health")(health_)
app.command()(job_changes.cancel)
app.command()(job_changes.suspend)
app.command()(job_changes.resume)
app.command()(job_changes.requeue)
app.command("signal")(job_changes.signal)
app.command()(job_changes.hold)
app.command()(job_changes.release)
app.command()(job_changes.update)
app.command()(job_changes.resize)
app.command()(job_changes.delete)
app.command()(jobs.snapshot)
history.register(app)
app.command()(top)
app.command()(plan)
app.command()(what_if)
app.command()(dashboard)
app.command()(jobs.flows)
app.command()(jobs.crons)
app.command()(jobs.hypernodes)
app.add_typer(queues.app)
app.add_typer(scheduler.app)
app.add_typer(metrics.app, name="metrics")
app.add_typer(ray_command.compat)
app.command()(simulate)
app.command()(validate)
app.command()(debug)
app.command()(schema)


@app.command()
def version() -> None:
    """Print the version."""
    from phalanx import __version__

    typer.echo(__version__)


def main() -> None:
    """Run the command line. It ends without a word when nobody reads what it prints any more."""
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
