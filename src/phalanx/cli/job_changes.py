"""Commands that change jobs of a running cluster: `phalanx cancel`, `hold`, `update` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from phalanx.cli.common_options import Address, Json, Name, Names, rows_json
from phalanx.cli.ending import Ended
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, report, say
from phalanx.protocol.bundle_messages import Receivers
from phalanx.protocol.requests.jobs import Command, CommandJob, DeleteJob, ResizeJob, UpdateJob
from phalanx.protocol.requests.steps import SignalJob

JobsOrTasks = Annotated[
    list[str],
    Argument(help="Names of jobs (NAME or NAMESPACE/NAME) or of array tasks (NAME[3-5])."),
]
JobsOrCrons = Annotated[
    list[str], Argument(help="Names of jobs or cron jobs: NAME or NAMESPACE/NAME.")
]


def cancel(names: JobsOrTasks, address: Address = None) -> None:
    """Cancel jobs. The jobs end and do not start again."""
    _command(names, address, "cancel", "is cancelled")


def suspend(names: JobsOrCrons, address: Address = None) -> None:
    """End the members of jobs and free their resources. The jobs wait until `phalanx resume`.

    A resumed job starts again from its beginning. A suspended cron job submits no
    jobs until `phalanx resume`.
    """
    _command(names, address, "suspend", "is suspended")


def resume(names: JobsOrCrons, address: Address = None) -> None:
    """Start suspended jobs again, and let suspended cron jobs submit jobs again."""
    _command(names, address, "resume", "is resumed")


def requeue(names: JobsOrTasks, address: Address = None) -> None:
    """End the members of running jobs and queue the jobs again.

    Members first get SIGTERM, and SIGKILL after their grace time. The variable
    PHALANX_RESTART counts a job's restarts.
    """
    _command(names, address, "requeue", "is requeued")


def signal(
    name: Annotated[str, Argument(help="Name of the job, or NAME[3-5] for array tasks.")],
    number: Annotated[str, Argument(metavar="SIGNAL", help="Signal to send: USR1, SIGUSR1 or 10.")],
    command: Annotated[
        bool,
        Option(
            "--command",
            help="Send the signal only to the members' commands, also if they are shells.",
        ),
    ] = False,
    everything: Annotated[
        bool,
        Option("--all", help="Send the signal to every process of the members, including shells."),
    ] = False,
    member: Annotated[
        str, Option("--member", "-m", help="Send the signal only to this member, such as worker-0.")
    ] = "",
    address: Address = None,
) -> None:
    """Send a signal to the members of a running job.

    By default, all processes of a member get the signal, except the member's
    command if the command is a shell. In a member with steps (srun, `phalanx
    step`), only the processes of the steps get the signal.
    """
    from phalanx.api.signals import signal_number

    if command and everything:
        fail("--command and --all cannot be combined.", USAGE)
    try:
        chosen = signal_number(number)
    except ValueError as error:
        fail(str(error), USAGE)
    to: Receivers = "command" if command else "all" if everything else "started"
    count = ask(address, SignalJob(name, chosen, to, member))
    say(f"{count} {'member' if count == 1 else 'members'} of job {name} got it")


def hold(names: Names, address: Address = None) -> None:
    """Keep pending jobs from starting until `phalanx release`."""
    _command(names, address, "hold", "is held")


def release(names: Names, address: Address = None) -> None:
    """Release held jobs, so that they can start."""
    _command(names, address, "release", "is released")


def update(
    name: Name,
    queue: Annotated[str | None, Option("--queue", "-q", help="New queue of the job.")] = None,
    priority: Annotated[
        int | None,
        Option(
            help="New priority; jobs with a higher number start first, and may take "
            "the place of running jobs with a lower one."
        ),
    ] = None,
    limit: Annotated[
        str | None,
        Option(
            "--time",
            "-t",
            help="New time limit: 2h30m, 90s, 1-12:00 (days-hours:minutes) or 90 (minutes).",
        ),
    ] = None,
    reservation: Annotated[
        str | None, Option(help="Name of the reservation to run in, or `none` for no reservation.")
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Change the queue, priority, time limit or reservation of a pending job."""
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
        echo(rows_json(row))
    else:
        time = "" if row.time_limit_s is None else f", time {length(row.time_limit_s)}"
        say(f"job {name} is changed: queue {row.queue}, priority {row.priority}{time}")


def _command(names: list[str], address: str | None, command: Command, said: str) -> None:
    _each(names, lambda name: ask(address, CommandJob(name, command)), said)


def _each(names: list[str], do: Callable[[str], object], said: str) -> None:
    """Call `do` for each job, and go on after a refusal. At the end, exit with the code of the
    first refusal.
    """
    code = 0
    for name in names:
        try:
            do(name)
        except Ended as refused:  # the reason is printed
            code = code or refused.code
        else:
            report(f"job {name} {said}")
    if code:
        raise Ended(code)


def resize(
    name: Name,
    sizes: Annotated[
        list[str],
        Argument(
            help="New number of members, at least 1: 8, or GROUP=8 for one task group of the job."
        ),
    ],
    least: Annotated[
        int | None,
        Option(
            "--min",
            min=0,
            help="Smallest number of members with which the job may run. "
            "Default: unchanged, or the new number of members if that is smaller.",
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Change the number of members of a job, while it waits or runs."""
    try:
        pairs = [text.rpartition("=") for text in sizes]
        replicas = {group: int(size) for group, _, size in pairs}
    except ValueError:
        fail(f"A size is a NUMBER or GROUP=NUMBER, not {' '.join(sizes)!r}.", USAGE)
    row = ask(address, ResizeJob(name, replicas, least))
    say(f"job {name} has {row.replicas} replicas, of which {row.min} must run together")


def delete(
    names: Annotated[
        list[str],
        Argument(help="Names of jobs, flows, cron jobs or HyperNodes: NAME or NAMESPACE/NAME."),
    ],
    address: Address = None,
) -> None:
    """Delete jobs, flows, cron jobs or HyperNodes. Running jobs are ended first.

    The output of deleted jobs is deleted, too. A flow or cron job is deleted with
    its jobs.
    """
    _each(names, lambda name: ask(address, DeleteJob(name)), "is deleted")
