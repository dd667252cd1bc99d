"""`phalanx shell`, `step`, `alloc`, `forward`, and `run --pty`: at work inside of running jobs."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import typer

from phalanx.api.directories import current_directory
from phalanx.cli.allocation import (
    HOLDER,
    LOOK_EVERY_S,
    OVER,
    Allocation,
    cancelled_by_interrupt,
    reach,
    refuse_ray,
    submit_with_streams,
    wait_until_running,
)
from phalanx.cli.attached import Program, follow
from phalanx.cli.forwarding import serve_port
from phalanx.cli.new_names import NewName
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription, MemberInfo
from phalanx.protocol.requests.jobs import GetJob, ListJobs
from phalanx.protocol.requests.steps import AttachMember, BeginStep, RunStep
from phalanx.runtime.os.accounts import current_umask

Address = Annotated[
    str | None, typer.Option(help="HOST:PORT of the head (PHALANX_ADDRESS, or the one here).")
]


# ---- jobs with streams -------------------------------------------------------------------------


def follow_attached(
    address: str | None, uid: str, *, is_terminal: bool, is_quiet: bool, labels: bool = False
) -> JobDescription:
    """Be the streams of a job that was submitted with them; the job once it is over."""
    found = wait_until_running(address, uid, is_quiet)
    if found.state not in OVER:
        programs = []
        for rank, member in enumerate(found.members):
            process = ask(address, AttachMember(uid, member.name))
            label = f"{rank}: ".encode() if labels else b""
            programs.append(Program(reach(address, process), label))
        follow(programs, is_terminal)
    return _wait_until_over(address, uid)


def run_at_terminal(
    address: str | None, spec: JobSpec, is_detached: bool, is_quiet: bool
) -> JobDescription:
    """Submit a job of one member with a terminal, and be that; the job once it is over. It ends
    when this command does."""
    refuse_ray(address, "--pty")
    if is_detached or spec.replicas != 1:
        fail("--pty is for one member, and for somebody who stays: no --detach, no --gang.", USAGE)
    submit_with_streams(address, spec, "terminal", is_quiet)
    with cancelled_by_interrupt(address, spec):
        return follow_attached(address, spec.uid, is_terminal=True, is_quiet=is_quiet)


def _wait_until_over(address: str | None, uid: str) -> JobDescription:
    while (found := ask(address, GetJob(uid))).state not in OVER:
        time.sleep(LOOK_EVERY_S)
    return found


# ---- steps -------------------------------------------------------------------------------------


class StepWish(msgspec.Struct, frozen=True, kw_only=True):
    """A program beside a member's own."""

    member: str
    argv: list[str]
    variables: Mapping[str, str] = {}
    directory: str = ""
    is_terminal: bool = False
    label: str = ""


def run_steps(address: str | None, job: str, wishes: Sequence[StepWish]) -> list[int]:
    """Run programs in the places of members of a job that runs, all at once, and be their streams;
    their exit codes. Where this command ends before them, they end; where it is asked to, they are
    asked to, and it ends once they have."""
    programs = []
    number = ask(address, BeginStep(job, wishes[0].argv, len(wishes)))
    for wish in wishes:
        request = RunStep(
            job, wish.member, wish.argv, wish.is_terminal, dict(wish.variables), wish.directory,
            step=number, umask=current_umask(),
        )  # fmt: skip
        programs.append(Program(reach(address, ask(address, request)), wish.label.encode()))
    return follow(programs, any(wish.is_terminal for wish in wishes), asks_to_end=True)


def job_and_member(address: str | None, name: str) -> tuple[JobDescription, MemberInfo]:
    """The job and member that JOB[.MEMBER] means; the first member where none is named."""
    known = {f"{row.namespace}/{row.name}" for row in ask(address, ListJobs())}
    full = name if "/" in name else f"default/{name}"
    above, _, wanted = full.rpartition(".")
    if full in known or above not in known:
        above, wanted = full, ""
    found = ask(address, GetJob(above))
    member = next((m for m in found.members if wanted in ("", m.name)), None)
    if member is None:
        there = ", ".join(m.name for m in found.members)
        fail(f"Job {above} has no member {wanted!r}; it has {there}.", NOT_FOUND)
    return found, member


def shell(
    name: Annotated[str, typer.Argument(help="JOB, or JOB.MEMBER as in JOB.worker-0.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="After --; by default your shell.")
    ] = None,
    no_pty: Annotated[
        bool, typer.Option("--no-pty", help="Pipes, as where this is no terminal.")
    ] = False,
    address: Address = None,
) -> None:
    """Run a shell, or another command, inside of a running job: its devices, variables, directory.

    It counts within the job, uses nothing up, ends with the job, and ends when this command does.
    """
    refuse_ray(address, "phalanx shell")
    job, member = job_and_member(address, name)
    is_terminal = not no_pty and os.isatty(0)
    argv = list(command or [os.environ.get("SHELL") or "/bin/sh"])
    wish = StepWish(member=member.name, argv=argv, is_terminal=is_terminal)
    raise typer.Exit(run_steps(address, f"{job.namespace}/{job.name}", [wish])[0])


def step(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    job: Annotated[
        str | None, typer.Option("--job", "-j", help="The job (default: PHALANX_JOB).")
    ] = None,
    members: Annotated[
        int | None, typer.Option("--members", "-n", min=1, help="Of the first so many only.")
    ] = None,
    address: Address = None,
) -> None:
    """Run a command in the place of each member of a running job; the largest of their exit codes.

    Inside of `phalanx alloc` and of jobs, the job is known. Each line has its member's name.
    """
    refuse_ray(address, "phalanx step")
    name = job or os.environ.get("PHALANX_JOB")
    if not name:
        fail("Which job? Name it by --job, or run this inside of `phalanx alloc`.", USAGE)
    if "/" not in name:
        name = f"{os.environ.get('PHALANX_NAMESPACE', 'default') if not job else 'default'}/{name}"
    found = ask(address, GetJob(name))
    chosen = found.members[:members]
    labelled = len(chosen) > 1
    wishes = [
        StepWish(
            member=m.name,
            argv=command,
            label=f"{m.name} | " if labelled else "",
            directory=current_directory(),
        )
        for m in chosen
    ]
    raise typer.Exit(max(run_steps(address, name, wishes)))


# ---- allocations -------------------------------------------------------------------------------


def alloc(
    command: Annotated[
        list[str] | None, typer.Argument(help="After --; by default your shell.")
    ] = None,
    gang: Annotated[int, typer.Option(min=1, help="So many members, all or none.")] = 1,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of each member.")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each member.")] = 0,
    memory: Annotated[str | None, typer.Option(help="Memory of each member, like 4Gi.")] = None,
    queue: Annotated[str, typer.Option("--queue", "-q", help="That it waits in.")] = "default",
    name: NewName = None,
    limit: Annotated[
        str | None, typer.Option("--time", "-t", help="How long it may be held: 2h30m, 90.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No word while it waits.")] = False,
    address: Address = None,
) -> None:
    """Hold places for steps while a command runs here; they are given back when it ends.

    `phalanx alloc --gang 2 --gpus 1 -- bash`, and in it `phalanx step -- python train.py`
    """
    from phalanx.api.job import Job
    from phalanx.manifests.quantities import quantity

    refuse_ray(address, "phalanx alloc")
    try:
        amount = None if memory is None else quantity(memory)
        job = Job(
            HOLDER, name=name or f"alloc-{os.urandom(3).hex()}", members=gang, queue=queue,
            num_cpus=cpus, num_gpus=gpus, memory=amount, memory_limit=amount, time=limit,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        fail(str(error), USAGE)
    argv = list(command or [os.environ.get("SHELL") or "/bin/sh"])
    allocation = Allocation(address, job.spec(), quiet)
    allocation.submit()
    with allocation:
        code = allocation.run_here(argv, {})
    raise typer.Exit(code)


# ---- ports -------------------------------------------------------------------------------------


def forward(
    name: Annotated[str, typer.Argument(help="JOB, or JOB.MEMBER as in JOB.worker-0.")],
    port: Annotated[int, typer.Argument(min=1, max=65535, help="Of the member's node.")],
    local: Annotated[
        int | None,
        typer.Option("--local", "-l", min=0, max=65535, help="Here; default: the same."),
    ] = None,
    address: Address = None,
) -> None:
    """Have a port of 127.0.0.1 here lead to that port of the node of a running job's member.

    Every user of this machine can connect to it meanwhile. Until Ctrl-C, or until the job ends.
    """
    refuse_ray(address, "phalanx forward")
    job, member = job_and_member(address, name)
    if member.state != st.RUNNING:
        fail(f"Member {member.name} of job {job.name} does not run: it is {member.state}.")
    here = port if local is None else local
    try:
        listening = socket.create_server(("127.0.0.1", here))
    except OSError as error:
        fail(f"127.0.0.1:{here}: {error.strerror}; --local names another port.")
    here = listening.getsockname()[1]
    say(f"127.0.0.1:{here} leads to port {port} of {member.name} of job {job.name}; Ctrl-C ends it")
    sys.stdout.flush()
    uid = f"{job.namespace}/{job.name}"

    def dial() -> Any:
        request = RunStep(uid, member.name, [], port=port)
        return reach(address, ask(address, request))

    def is_over() -> bool:
        return ask(address, GetJob(uid)).state in OVER

    serve_port(listening, dial, is_over)
    say(f"job {job.name} is over", err=True)
