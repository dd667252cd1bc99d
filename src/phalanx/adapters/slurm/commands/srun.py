"""`srun` and `salloc`: tasks in the places of a job, which runs already or is made for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
import typer

from phalanx.adapters.slurm.commands.numbers import array_task_or_job, with_number
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.options import (
    ALLOCATION,
    STEP,
    OptionError,
    from_environment,
)
from phalanx.adapters.slurm.request import exported, job_spec, shape_of
from phalanx.adapters.slurm.script import file_name
from phalanx.api.directories import current_directory
from phalanx.cli.allocation import HOLDER, Allocation, reach
from phalanx.cli.attached import Program, follow
from phalanx.cli.reach import ask
from phalanx.head.jobs.slurm import own_slurm_variables, slurm_variables, tasks_of_member
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.work import JobDescription
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import GetJob
from phalanx.protocol.requests.steps import BeginStep, RunStep
from phalanx.runtime.os.accounts import current_umask

_NOT_IN_A_JOB = frozenset(
    {"gres", "gpus", "gpus-per-node", "gpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu"}
    | {"partition", "time", "begin", "deadline", "hold", "signal", "priority"}
)
"""What a step asks for that is inside of a job: it has what the job has."""
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
"""Signals that would end this command, and that say something to tasks."""


_NO_INDEX = "4294967294"


class Places(msgspec.Struct, frozen=True):
    """A job that runs, and what Slurm's variables say of it."""

    job: JobDescription
    tasks_per_member: int
    nodes: list[str]
    hosts: dict[str, str]

    @property
    def number(self) -> str:
        """The job's, which the elements of an array have in common."""
        element = split_element(self.job.name)
        return self.job.name if element is None else element[0]

    @property
    def index(self) -> str:
        """Of an element among those of its array; else what Slurm says of none."""
        element = split_element(self.job.name)
        return _NO_INDEX if element is None else element[1]

    @property
    def tasks(self) -> int:
        """As many as it was made for."""
        return int(self.job.annotations.get("slurm/tasks", 0)) or len(self.nodes)


def places_of(job: JobDescription, tasks_per_member: int) -> Places:
    """Where its members are, by rank."""
    rows = ask(address(), GetStatus()).nodes
    hosts = {row.node_id: row.host for row in rows}
    return Places(job, tasks_per_member, [member.node for member in job.members], hosts)


@contextmanager
def allocation(command: str, asked: dict[str, str]) -> Iterator[tuple[Allocation, Places]]:
    """Places that are held for these options, and given back in the end."""
    try:
        shape = shape_of(asked)
        asked.setdefault("job-name", command)
        env = exported({"export": "NONE"}, {})
        made: list[Allocation] = []
        with ExitStack() as stack:

            def submit(number: int) -> JobSpec:
                spec = job_spec(number, asked, shape, HOLDER, HOLDER, env)
                held = Allocation(address(), spec, is_quiet="quiet" in asked)
                held.submit()
                made.append(held)
                return spec

            with_number(address(), submit)
            held = stack.enter_context(made[0])
            yield held, places_of(held.job, shape.tasks_per_member)
    except OptionError as error:
        refuse(command, str(error))


def salloc(words: Sequence[str]) -> None:
    """Hold an allocation while a command runs here, a shell by default."""
    asked, rest = read("salloc", ALLOCATION, words)
    asked = from_environment("SALLOC_", ALLOCATION, os.environ) | asked
    argv = rest or [os.environ.get("SHELL") or "/bin/sh"]
    with allocation("salloc", asked) as (held, places):
        code = held.run_here(argv, job_variables(places))
    raise typer.Exit(code)


def job_variables(places: Places) -> dict[str, str]:
    """What a command finds that is in an allocation."""
    job, each = places.job, places.tasks_per_member
    return {
        "SLURM_JOB_ID": places.number,
        "SLURM_JOBID": places.number,
        "SLURM_JOB_NAME": job.annotations.get("slurm/name", job.name),
        "SLURM_JOB_PARTITION": job.queue,
        "SLURM_SUBMIT_DIR": current_directory(),
        "SLURM_CLUSTER_NAME": "phalanx",
        "PHALANX_SLURM_TASKS_PER_MEMBER": str(each),
        **slurm_variables(places.nodes, places.hosts, each, places.tasks),
    }


def srun(words: Sequence[str]) -> None:
    """Run tasks: in the job that this is inside of, else in one that is made for them."""
    asked, argv = read("srun", STEP, words)
    if not argv:
        refuse("srun", "give a command to run")
    within = array_task_or_job(asked["jobid"]) if "jobid" in asked else _job_around(os.environ)
    if within:
        _leave_warnings_to_tasks()
        for name in sorted(_NOT_IN_A_JOB & asked.keys()):
            refuse("srun", f"--{name}: inside of a job a step has what the job has")
        found = ask(address(), GetJob(within))
        if not found.members:
            refuse("srun", f"job {within} has no place to run in: {found.state}")
        each = int(os.environ.get("PHALANX_SLURM_TASKS_PER_MEMBER") or 1)
        raise typer.Exit(_run(asked, places_of(found, each), argv))
    if "pty" in asked:
        asked.setdefault("ntasks", "1")
    asked = from_environment("SLURM_", STEP, os.environ) | asked
    asked.setdefault("job-name", os.path.basename(argv[0]))
    with allocation("srun", asked) as (held, places):
        held.code = _run(asked, places, argv)
    raise typer.Exit(held.code)


def _job_around(environ: Mapping[str, str]) -> str:
    """The job that this runs inside of, or the element of an array; "" outside of any."""
    job = environ.get("SLURM_JOB_ID", "")
    is_element = job and environ.get("SLURM_ARRAY_JOB_ID") == job
    return array_task_or_job(f"{job}_{environ['SLURM_ARRAY_TASK_ID']}") if is_element else job


def _leave_warnings_to_tasks() -> None:
    """The signal before the end (`--signal`) goes to all that a batch script has started: to tasks
    it comes from their nodes, and this command goes on until they have ended."""
    for name in WARNINGS:
        signal.signal(name, signal.SIG_IGN)


def _run(asked: Mapping[str, str], places: Places, argv: Sequence[str]) -> int:
    """Run a step; its exit code, the largest of its tasks'."""
    try:
        count = _tasks(asked, places)
        bad = asked.get("kill-on-bad-exit", "0")
        if bad not in ("0", "1"):
            raise OptionError(f"--kill-on-bad-exit={bad}: it is 0 or 1")
        for word in asked.get("cpu-bind", "none").split(","):
            if word not in ("none", "no", "q", "quiet"):
                raise OptionError(f"--cpu-bind={word}: tasks are not bound to CPUs here")
        if asked.get("mpi", "none") != "none":
            raise OptionError("--mpi: PMI is not spoken here; only none is there")
        if "pty" in asked and count != 1:
            raise OptionError("--pty is for one task: add --ntasks=1")
        programs = _programs(asked, places, argv, count)
    except OptionError as error:
        refuse("srun", str(error))
    takes_input = asked.get("input", "all") not in ("none", "/dev/null")
    codes = follow(programs, "pty" in asked, takes_input, ends_all=bad == "1")
    for program in programs:
        for fd in {program.out, program.err} - {1, 2}:
            os.close(fd)
    return max(codes)


def _tasks(asked: Mapping[str, str], places: Places) -> int:
    most = len(places.nodes) * places.tasks_per_member
    given = asked.get("ntasks")
    if given is None and "nodes" in asked:
        given = asked["nodes"]
    if given is None:
        return 1 if "pty" in asked else min(places.tasks, most)
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise OptionError(f"--ntasks={given}: job {places.job.name} has places for 1 to {most}")
    return int(given)


def _programs(
    asked: Mapping[str, str], places: Places, argv: Sequence[str], count: int
) -> list[Program]:
    job, members = places.job, places.job.members
    uid = f"{job.namespace}/{job.name}"
    directory = os.path.abspath(asked.get("chdir") or current_directory())
    chosen = min(len(members), count)
    each = max(places.tasks_per_member, -(-count // chosen))
    shared = exported(asked, os.environ)
    if places.index != _NO_INDEX:
        shared |= {k: v for k, v in os.environ.items() if k.startswith("SLURM_ARRAY_")}
    shared |= job_variables(places) | slurm_variables(
        places.nodes[:chosen], places.hosts, each, count
    )
    begin = BeginStep(uid, list(argv), count, asked.get("job-name", ""))
    step = ask(address(), begin)
    shared |= {"SLURM_STEP_ID": str(step), "SLURM_STEPID": str(step)}
    shared |= {"SLURM_STEP_NUM_TASKS": str(count)}
    if "cpus-per-task" in asked:
        shared["SLURM_CPUS_PER_TASK"] = asked["cpus-per-task"]
    local: dict[str, int] = {}
    programs = []
    for rank, member in enumerate(members[:chosen]):
        for task in tasks_of_member(rank, chosen, each, count):
            number = local[member.node] = local.get(member.node, -1) + 1
            devices = member.devices.get("GPU", [])
            own = own_slurm_variables(places.nodes, places.hosts, member.node, devices)
            own |= {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(number)}
            own |= {"PHALANX_RANK": str(task)}
            request = RunStep(
                uid, member.name, list(argv), "pty" in asked, {**shared, **own}, directory,
                step=step, umask=current_umask(),
            )  # fmt: skip
            process = ask(address(), request)
            label = f"{task}: ".encode() if "label" in asked else b""
            out, err = _files(asked, places, str(step), own)
            programs.append(Program(reach(address(), process), label, out=out, err=err))
    return programs


def _files(
    asked: Mapping[str, str], places: Places, step: str, own: Mapping[str, str]
) -> tuple[int, int]:
    """Where the output and errors of the task with these variables go."""
    name = places.job.annotations.get("slurm/name", "")
    values = {
        "A": places.number,
        "J": f"{places.number}.{step}",
        "j": places.number,
        "a": places.index,
        "n": own["SLURM_NODEID"],
        "N": own["SLURMD_NODENAME"],
        "s": step,
        "t": own["SLURM_PROCID"],
        "x": name,
        "b": "4294967294",
        "u": os.environ.get("USER", ""),
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_TRUNC if asked.get("open-mode") == "truncate" else os.O_APPEND

    def opened(option: str, otherwise: int) -> int:
        pattern = asked.get(option)
        if pattern is None or pattern == "all":
            return otherwise
        path = "/dev/null" if pattern == "none" else file_name(pattern, values)
        try:
            if directory := os.path.dirname(path):
                os.makedirs(directory, exist_ok=True)
            return os.open(path, flags, 0o666)
        except OSError as error:
            raise OptionError(f"--{option}={path}: {error.strerror}") from None

    out = opened("output", 1)
    return out, opened("error", 2 if out == 1 else out)
