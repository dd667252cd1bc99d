"""`phalanx logs`: what jobs, daemons, workers and actors have printed."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from phalanx.cli import process_output as processes
from phalanx.cli.job_output import JobOutput, follow, job_and_member
from phalanx.cli.jobs import Address, code_of
from phalanx.cli.periods import past_moment
from phalanx.cli.reach import USAGE, fail


def logs(
    name: Annotated[
        str | None, typer.Argument(help="JOB, or JOB.MEMBER as in JOB.worker-0.")
    ] = None,
    head: Annotated[bool, typer.Option("--head", help="Of the head itself.")] = False,
    node: Annotated[str | None, typer.Option(help="Of a node itself, by host name or id.")] = None,
    worker: Annotated[str | None, typer.Option(help="Of a worker, by pid or id.")] = None,
    actor: Annotated[str | None, typer.Option(help="Of an actor, by name or id.")] = None,
    follow_: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on until the job is over; exit as it does."),
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, max=processes.MAX_TAIL, help="Only so many last lines.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Lines since then, as 10m (ago), today; of no job.")
    ] = "",
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="When a worker printed each line.")
    ] = False,
    previous: Annotated[bool, typer.Option(help="Of the start before the last one.")] = False,
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
) -> None:
    """Print what a job's members have printed, each line with the member's name; or what the head,
    a node, a worker or an actor has."""
    if (name is not None) + head + sum(one is not None for one in (node, worker, actor)) != 1:
        fail("Name one: a job, or --head, --node, --worker or --actor.", USAGE)
    if name is not None:
        if since or timestamps:
            fail("What members of jobs print goes to their files without times.", USAGE)
        job, member = job_and_member(address, name)
        shown = JobOutput(
            address, job, member or None, is_previous=previous, tail=tail, as_json=json
        )
        if follow_:
            raise typer.Exit(code_of(follow(shown)))
        shown.go_on(is_last=True)
        return
    if previous:
        fail("--previous is for jobs.", USAGE)
    try:
        begin = past_moment(since, time.time()) if since else 0.0
    except ValueError as error:
        fail(f"--since: {error}.", USAGE)
    if node is not None:
        source = processes.node_source(address, node)
    elif worker is not None:
        source = processes.worker_source(address, worker)
    elif actor is not None:
        source = processes.actor_source(address, actor)
    else:
        source = processes.Source("")
    processes.show(
        address,
        source,
        follow=follow_,
        tail=tail,
        since=begin,
        timestamps=timestamps,
        as_json=json,
    )
