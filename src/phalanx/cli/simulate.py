"""`phalanx simulate`: try a policy on a trace before it meets people."""

from __future__ import annotations

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

UNUSABLE = 2


class Arrival(str, Enum):
    """What moves a trace on."""

    order = "order"
    time = "time"


def simulate(
    nodes: Annotated[Path, typer.Option(help="The machines: openb or plain CSV, also .gz.")],
    pods: Annotated[
        Path, typer.Option("--pods", help="The work: openb, Muri or plain CSV, or Philly JSON.")
    ],
    policy: Annotated[
        list[str],
        typer.Option(help="A policy's name or a scheduler configuration; repeat to compare."),
    ],
    arrival: Annotated[
        Arrival,
        typer.Option(help="order: pods come one by one and stay. time: at their own times."),
    ] = Arrival.order,
    inflate: Annotated[
        float | None,
        typer.Option(min=0.0, help="Copy pods until so much of all GPUs is asked for (1.3)."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every shuffle and draw.")] = 42,
    queues: Annotated[Path | None, typer.Option(help="Queues, with --arrival time.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a page with plots here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Run a trace against one or more policies, on virtual time. Exit 2 when a file is wrong."""
    from phalanx.errors import PhalanxError
    from phalanx.sim.command import Request, run

    request = Request(
        nodes=nodes,
        pods=pods,
        policies=tuple(policy),
        over_time=arrival is Arrival.time,
        inflate=inflate,
        seed=seed,
        queues=queues,
        report=report,
        as_json=json,
    )
    try:
        run(request, write=typer.echo, warn=partial(typer.echo, err=True))
    except (PhalanxError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNUSABLE) from error
