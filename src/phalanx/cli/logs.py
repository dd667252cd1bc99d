"""The command `phalanx logs`: the output of jobs, daemons, workers and actors."""

from __future__ import annotations

import time
from typing import Annotated

from phalanx.cli import process_output as processes
from phalanx.cli.common_options import Address
from phalanx.cli.ending import Ended
from phalanx.cli.job_output import JobOutput, code_of, follow, job_and_member
from phalanx.cli.options import Argument, Option
from phalanx.cli.periods import past_moment
from phalanx.cli.reach import USAGE, fail


def logs(
    name: Annotated[
        str | None,
        Argument(
            help="Name of a job, of an array task (NAME[7]), or of one member: JOB.MEMBER, such as "
            "train.worker-0."
        ),
    ] = None,
    head: Annotated[bool, Option("--head", help="Print the log of the head process.")] = False,
    node: Annotated[
        str | None,
        Option(help="Print the log of a node's process; value: the node's name or id."),
    ] = None,
    worker: Annotated[
        str | None, Option(help="Print the output of the worker with this process id or worker id.")
    ] = None,
    actor: Annotated[
        str | None, Option(help="Print the output of the actor with this name or id.")
    ] = None,
    follow_: Annotated[
        bool,
        Option(
            "--follow",
            "-f",
            help="Keep printing new output until Ctrl-C. For a job, stop when the job is over, and "
            "exit with the job's exit code.",
        ),
    ] = False,
    tail: Annotated[
        int | None,
        Option(
            min=0,
            max=processes.MAX_TAIL,
            help="Number of lines to print, counted from the end (for a job: from the end of each "
            "member's output). Default: all lines.",
        ),
    ] = None,
    since: Annotated[
        str,
        Option(
            help="Print only lines written since this time: 10m (10 minutes ago), today or "
            "2026-11-01T18:00. Not for jobs."
        ),
    ] = "",
    timestamps: Annotated[
        bool,
        Option("--timestamps", help="Print the time of each line. Not for jobs."),
    ] = False,
    previous: Annotated[
        bool,
        Option(
            help="Print the output of the attempt before the latest one, for a member that started "
            "again. Only for jobs."
        ),
    ] = False,
    preparing: Annotated[
        bool,
        Option(
            help="Print the log of the environment's preparation (pip, uv, conda, images). Only "
            "for jobs."
        ),
    ] = False,
    address: Address = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object for each line.")] = False,
) -> None:
    """Print the output of a job's members, or of the head, a node, a worker or an actor.

    In a job with several members, each line begins with the member's name. Exit
    1: the output cannot be read, because its node or its file is gone.
    """
    if (name is not None) + head + sum(one is not None for one in (node, worker, actor)) != 1:
        fail("Name one source: a job, --head, --node, --worker or --actor.", USAGE)
    if name is not None:
        if since or timestamps:
            fail("--since and --timestamps are not for jobs: their output has no times.", USAGE)
        job, member = job_and_member(address, name)
        shown = JobOutput(
            address,
            job,
            member or None,
            is_previous=previous,
            tail=tail,
            as_json=json,
            is_preparing=preparing,
        )
        if follow_:
            raise Ended(code_of(follow(shown)))
        shown.go_on(is_last=True)
        if shown.is_lost:
            raise Ended(1)
        return
    if previous or preparing:
        fail("--previous and --preparing are only for jobs.", USAGE)
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
