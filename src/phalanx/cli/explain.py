"""The commands `phalanx explain` and `phalanx replay`: why work waits, and decisions again."""

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

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def replay(
    file: Annotated[Path, typer.Argument(help="File with one snapshot or several.")],
    cycles: Annotated[
        int, typer.Option(min=1, help="Number of cycles to run, one after another.")
    ] = 1,
    json: Json = False,
) -> None:
    """Decide a recorded scheduling cycle again; nothing is changed.

    Exit 1: the decisions differ from those that the file expects.
    """
    from phalanx.cli.snapshots import replay_file

    raise typer.Exit(replay_file(str(file), as_json=json, cycles=cycles))


def explain(
    file: Annotated[
        str,
        typer.Argument(help="Job, gang, flow or cron job of the cluster, or a snapshot file."),
    ],
    name: Annotated[
        str | None, typer.Argument(help="Task or podgroup of the snapshot file. Default: all.")
    ] = None,
    actor: Annotated[
        bool, typer.Option("--actor", help="Explain the actor with this name or id.")
    ] = False,
    address: jobs.Address = None,
    json: Json = False,
) -> None:
    """Explain why a job, gang, task or actor waits, and what would have to change."""
    from phalanx.cli.snapshots import explain_file
    from phalanx.protocol.requests.actors import ExplainActor
    from phalanx.protocol.requests.gangs import Explain

    # os.path: Path.exists raises an error for a name that no file can have.
    if name is not None or os.path.exists(file) or file.endswith((".json", ".yaml", ".yml")):
        raise typer.Exit(explain_file(file, name, as_json=json))
    answer = ask(address, ExplainActor(file) if actor else Explain(file))
    if json:
        typer.echo(json_module.dumps(msgspec.to_builtins(answer), indent=1))
    else:
        say(str(answer))
