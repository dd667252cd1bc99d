"""The commands `phalanx shell`, `step`, `alloc` and `forward`, and `phalanx run --pty`.

All of them work inside running jobs.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from phalanx.api.directories import current_directory
from phalanx.cli import panels
from phalanx.cli.allocation import (
    HOLDER,
    LOOK_EVERY_S,
    Allocation,
    cancelled_by_interrupt,
    need_node,
    reach,
    submit_with_streams,
    wait_until_running,
)
from phalanx.cli.attached import Program, follow
from phalanx.cli.ending import Ended
from phalanx.cli.forwarding import serve_port
from phalanx.cli.gpu_options import GpuMemory, Gpus, GpuShare, gpu_fields
from phalanx.cli.member_options import Cpus, Memory, Queue, Quiet, Time
from phalanx.cli.new_names import NewName
from phalanx.cli.option_names import OF_JOB, with_options
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription, MemberInfo
from phalanx.protocol.requests.jobs import GetJob, ListJobs
from phalanx.protocol.requests.steps import AttachMember, BeginStep, RunStep
from phalanx.runtime.os.accounts import current_umask

_ADDRESS = (
    "Address of the head (HOST:PORT). Default: PHALANX_ADDRESS, or the cluster on this machine. "
    "Logins do not work with this command."
)
Address = Annotated[str | None, Option(help=_ADDRESS)]


# ---- jobs with streams -------------------------------------------------------------------------


def follow_attached(
    address: str | None, uid: str, *, is_terminal: bool, is_quiet: bool, labels: bool = False
) -> JobDescription:
    """Connect this process's terminal or pipes to a job's members. Returns the job when it is
    over.
    """
    found = wait_until_running(address, uid, is_quiet)
    if found.state not in st.SETTLED:
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
    """Submit a job of one member, and connect it to this terminal. Returns the job when it is over.

    The job ends when this command ends.
    """
    need_node(address, "--pty")
    if is_detached or spec.replicas != 1:
        fail("--pty is for one member in the foreground: leave out --detach and --gang.", USAGE)
    submit_with_streams(address, spec, "terminal", is_quiet)
    with cancelled_by_interrupt(address, spec):
        return follow_attached(address, spec.uid, is_terminal=True, is_quiet=is_quiet)


def _wait_until_over(address: str | None, uid: str) -> JobDescription:
    while (found := ask(address, GetJob(uid))).state not in st.SETTLED:
        time.sleep(LOOK_EVERY_S)
    return found


# ---- steps -------------------------------------------------------------------------------------


class StepWish(msgspec.Struct, frozen=True, kw_only=True):
    """A request to run a program inside a member, in addition to the member's own programs."""

    member: str
    argv: list[str]
    variables: Mapping[str, str] = {}
    directory: str = ""
    is_terminal: bool = False
    label: str = ""


def run_steps(address: str | None, job: str, wishes: Sequence[StepWish]) -> list[int]:
    """Run programs inside a running job's members at the same time, and return their exit codes.
    The programs' input and output go through this command, and the programs end when it ends.
    SIGTERM is passed on to the programs, and this command then waits for their end.
    """
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
    """Return the job and the member that JOB[.MEMBER] names. The default is the first member."""
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
    name: Annotated[
        str,
        Argument(
            help="Name of a running job (its first member is used), or of one member: JOB.MEMBER, "
            "such as train.worker-0."
        ),
    ],
    command: Annotated[
        list[str] | None,
        Argument(help="Command to run, written after --. Default: your shell."),
    ] = None,
    no_pty: Annotated[
        bool,
        Option("--no-pty", help="Connect the command through pipes, without a terminal."),
    ] = False,
    address: Address = None,
) -> None:
    """Run a shell, or another command, inside a running job.

    The shell has the job's devices, variables and directory, and uses the job's
    resources. It ends when the job or this command ends.
    """
    need_node(address, "phalanx shell")
    job, member = job_and_member(address, name)
    is_terminal = not no_pty and os.isatty(0)
    argv = list(command or [os.environ.get("SHELL") or "/bin/sh"])
    wish = StepWish(member=member.name, argv=argv, is_terminal=is_terminal)
    raise Ended(run_steps(address, f"{job.namespace}/{job.name}", [wish])[0])


def step(
    command: Annotated[list[str], Argument(help="Command to run, written after --.")],
    job: Annotated[
        str | None,
        Option(
            "--job",
            "-j",
            help="Name of the running job. Default: PHALANX_JOB, which is set inside jobs.",
        ),
    ] = None,
    members: Annotated[
        int | None,
        Option(
            "--members",
            "-n",
            min=1,
            help="Number of members in which the command runs, counted from the first member. "
            "Default: all members.",
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Run a command inside each member of a running job, on the member's resources.

    Inside `phalanx alloc` and inside jobs, --job is not needed. With several
    members, each line of output begins with the member's name. Exits with the
    largest exit code of the members.
    """
    need_node(address, "phalanx step")
    name = job or os.environ.get("PHALANX_JOB")
    if not name:
        fail("No job is named: give --job, or run this command inside `phalanx alloc`.", USAGE)
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
    raise Ended(max(run_steps(address, name, wishes)))


# ---- allocations -------------------------------------------------------------------------------


def alloc(
    command: Annotated[
        list[str] | None,
        Argument(help="Command to run, written after --. Default: your shell."),
    ] = None,
    gang: Annotated[
        int,
        Option(
            min=1,
            rich_help_panel=panels.RESOURCES,
            help="Number of members. They get their resources together or not at all.",
        ),
    ] = 1,
    cpus: Cpus = 1,
    gpus: Gpus = "0",
    gpu_memory: GpuMemory = None,
    gpu_share: GpuShare = None,
    memory: Memory = None,
    queue: Queue = "default",
    name: NewName = None,
    limit: Time = None,
    quiet: Quiet = False,
    address: Annotated[str | None, Option(rich_help_panel=panels.CLUSTER, help=_ADDRESS)] = None,
) -> None:
    """Hold resources on the cluster while a command runs on this machine.

    For example, `phalanx alloc --gang 2 --gpus 1 -- bash` starts a shell. In this
    shell, `phalanx step -- python train.py` runs a program on the held resources.
    When the shell ends, the resources are released.
    """
    from phalanx.api.job import Job

    need_node(address, "phalanx alloc")
    try:
        job = Job(
            HOLDER, name=name or f"alloc-{os.urandom(3).hex()}", members=gang, queue=queue,
            num_cpus=cpus, **gpu_fields(gpus, memory=gpu_memory, share=gpu_share),
            memory=memory, memory_limit=memory, time=limit,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        fail(with_options(str(error), OF_JOB), USAGE)
    argv = list(command or [os.environ.get("SHELL") or "/bin/sh"])
    allocation = Allocation(address, job.spec(), quiet)
    allocation.submit()
    with allocation:
        code = allocation.run_here(argv, {})
    raise Ended(code)


# ---- ports -------------------------------------------------------------------------------------


def forward(
    name: Annotated[
        str,
        Argument(
            help="Name of a running job (its first member is used), or of one member: JOB.MEMBER, "
            "such as train.worker-0."
        ),
    ],
    port: Annotated[
        int, Argument(min=1, max=65535, help="Port on the member's node, such as 8888.")
    ],
    local: Annotated[
        int | None,
        Option(
            "--local",
            "-l",
            min=0,
            max=65535,
            help="Port on this machine; 0 chooses a free port. Default: the same number as PORT.",
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Forward a port of this machine (127.0.0.1) to a port on the node of a running job's member.

    The command runs until Ctrl-C, or until the job ends. Every user of this
    machine can connect to the local port.
    """
    need_node(address, "phalanx forward")
    job, member = job_and_member(address, name)
    if member.state != st.RUNNING:
        fail(f"Member {member.name} of job {job.name} does not run: it is {member.state}.")
    here = port if local is None else local
    try:
        listening = socket.create_server(("127.0.0.1", here))
    except OSError as error:
        fail(f"127.0.0.1:{here}: {error.strerror}; choose another port with --local.")
    here = listening.getsockname()[1]
    say(f"127.0.0.1:{here} leads to port {port} of {member.name} of job {job.name}; Ctrl-C ends it")
    sys.stdout.flush()
    uid = f"{job.namespace}/{job.name}"

    def dial() -> Any:
        request = RunStep(uid, member.name, [], port=port)
        return reach(address, ask(address, request))

    def is_over() -> bool:
        return ask(address, GetJob(uid)).state in st.SETTLED

    serve_port(listening, dial, is_over)
    say(f"job {job.name} is over", err=True)
