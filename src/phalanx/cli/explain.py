"""`phalanx explain` and `replay`: why something waits, on a cluster or in a snapshot file."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from phalanx.cli import jobs
from phalanx.cli.reach import ask
from phalanx.cli.table import say

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


def replay(
    file: Annotated[Path, typer.Argument(help="A snapshot, or a file of several.")],
    cycles: Annotated[int, typer.Option(min=1, help="Run so many cycles on end.")] = 1,
    json: Json = False,
) -> None:
    """Decide a recorded cycle again, without touching anything. Exit 1 when it differs."""
    from phalanx.cli.snapshots import replay_file

    raise typer.Exit(replay_file(str(file), as_json=json, cycles=cycles))


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
