"""`phalanx cancel`, `hold`, `update`, `resize`, ...: what is done to jobs of a running cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from phalanx.cli.jobs import Address, Json, Name, Names, rows_json
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import report, say
from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.jobs import Command, CommandJob, DeleteJob, ResizeJob, UpdateJob
from phalanx.protocol.requests.steps import SignalJob


def cancel(names: Names, address: Address = None) -> None:
    """End jobs for good."""
    _command(names, address, "cancel", "is cancelled")


def suspend(names: Names, address: Address = None) -> None:
    """End the members of jobs until they are resumed; a cron job makes no more jobs."""
    _command(names, address, "suspend", "is suspended")


def resume(names: Names, address: Address = None) -> None:
    """Start suspended jobs again."""
    _command(names, address, "resume", "is resumed")


def requeue(names: Names, address: Address = None) -> None:
    """End the members of jobs that run, and have them wait and start again.

    They get SIGTERM and their grace first; PHALANX_RESTART counts. NAME[3-5] is for elements.
    """
    _command(names, address, "requeue", "is requeued")


def signal(
    name: Annotated[str, typer.Argument(help="The job, NAME[3-5], or namespace/name.")],
    number: Annotated[str, typer.Argument(metavar="SIGNAL", help="USR1, SIGUSR1 or 10.")],
    command: Annotated[
        bool, typer.Option("--command", help="The members' own command or script alone.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All that runs in the members, shells too.")
    ] = False,
    member: Annotated[str, typer.Option("--member", "-m", help="This one alone.")] = "",
    address: Address = None,
) -> None:
    """Send the members of a job that runs a signal; it goes on, unless they end by it.

    A shell is spared and what it has started gets the signal; where a member has steps (srun,
    `phalanx step`), they alone do.
    """
    from phalanx.api.signals import signal_number

    if command and everything:
        fail("--command and --all exclude each other.", USAGE)
    try:
        chosen = signal_number(number)
    except ValueError as error:
        fail(str(error), USAGE)
    to: Receivers = "command" if command else "all" if everything else "started"
    count = ask(address, SignalJob(name, chosen, to, member))
    say(f"{count} {'member' if count == 1 else 'members'} of job {name} got it")


def hold(names: Names, address: Address = None) -> None:
    """Have jobs that wait wait until they are released."""
    _command(names, address, "hold", "is held")


def release(names: Names, address: Address = None) -> None:
    """Let held jobs start when they can."""
    _command(names, address, "release", "is released")


def update(
    name: Name,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="The queue.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher goes first.")] = None,
    limit: Annotated[
        str | None, typer.Option("--time", "-t", help="How long it may run: 2h30m, 1-12:00.")
    ] = None,
    reservation: Annotated[
        str | None, typer.Option(help="The reservation that it is to run in, or none.")
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Give a job that waits another queue, priority, time or reservation."""
    from phalanx.cli.job_view import length
    from phalanx.manifests.times import read_length

    if queue is None and priority is None and limit is None and reservation is None:
        fail("Nothing to change: give --queue, --priority, --time or --reservation.", USAGE)
    if reservation is not None and reservation.lower() == "none":
        reservation = ""
    try:
        limit_s = None if limit is None else read_length(limit)
    except ValueError as error:
        fail(f"--time: {error}", USAGE)
    row = ask(address, UpdateJob(name, queue, priority, limit_s, reservation))
    if json:
        typer.echo(rows_json(row))
    else:
        time = "" if row.time_limit_s is None else f", time {length(row.time_limit_s)}"
        say(f"job {name} is changed: queue {row.queue}, priority {row.priority}{time}")


def _command(names: list[str], address: str | None, command: Command, said: str) -> None:
    _each(names, lambda name: ask(address, CommandJob(name, command)), said)


def _each(names: list[str], do: Callable[[str], object], said: str) -> None:
    """Do it to each job, also after one that cannot be; exit as the first of those says."""
    code = 0
    for name in names:
        try:
            do(name)
        except typer.Exit as refused:  # the reason is printed
            code = code or refused.exit_code
        else:
            report(f"job {name} {said}")
    if code:
        raise typer.Exit(code)


def resize(
    name: Name,
    sizes: Annotated[list[str], typer.Argument(help="How many members: 8, or GROUP=8 ...")],
    least: Annotated[
        int | None, typer.Option("--min", min=0, help="So many must run together.")
    ] = None,
    address: Address = None,
) -> None:
    """Give a job more or fewer members while it lives."""
    try:
        pairs = [text.rpartition("=") for text in sizes]
        replicas = {group: int(size) for group, _, size in pairs}
    except ValueError:
        fail(f"A size is a number, or GROUP=NUMBER, not {' '.join(sizes)!r}.", USAGE)
    row = ask(address, ResizeJob(name, replicas, least))
    say(f"job {name} has {row.replicas} replicas, of which {row.min} must run together")


def delete(names: Names, address: Address = None) -> None:
    """End jobs, flows or cron jobs if they live, and forget them and what they printed."""
    _each(names, lambda name: ask(address, DeleteJob(name)), "is deleted")
