"""The commands `srun` and `salloc`: tasks inside the members of a running job or of a new job."""

from __future__ import annotations

import getpass
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from phalanx.adapters.slurm.commands.asked_nodes import AskedNodes
from phalanx.adapters.slurm.commands.numbers import array_task_or_job, with_number
from phalanx.adapters.slurm.commands.step_ends import KILLED, ended_job, tell_why
from phalanx.adapters.slurm.commands.step_limits import limits_of
from phalanx.adapters.slurm.commands.step_places import (
    NO_INDEX,
    Places,
    chosen_members,
    nodes_of_tasks,
    places_of,
    whole_number,
)
from phalanx.adapters.slurm.commands.usage import address, read, refuse
from phalanx.adapters.slurm.marks import CLUSTER, check_words
from phalanx.adapters.slurm.options import (
    ALLOCATION,
    STEP,
    OptionError,
    from_environment,
)
from phalanx.adapters.slurm.request import (
    MAX_TASKS,
    counts_tasks,
    exported,
    job_spec,
    job_variables,
    shape_of,
)
from phalanx.adapters.slurm.script import file_name
from phalanx.adapters.slurm.steps import (
    commands_of,
    device_variables,
    devices_of_task,
    end_texts,
    inherited_variables,
    task_numbers,
    torchrun_variables,
)
from phalanx.api.directories import current_directory
from phalanx.cli.allocation import HOLDER, Allocation, reach, submit_with_streams
from phalanx.cli.attached import Input, Program, follow
from phalanx.cli.ending import Ended
from phalanx.cli.reach import ask
from phalanx.cli.table import say
from phalanx.head.jobs.slurm import (
    own_slurm_variables,
    own_step_variables,
    slurm_variables,
    tasks_of_member,
)
from phalanx.model.jobs.spec import JobSpec
from phalanx.protocol.requests.jobs import GetJob
from phalanx.protocol.requests.steps import BeginStep, RunStep
from phalanx.runtime.os.accounts import current_umask

_MOST_LETTERS = 1_000
"""The number of letters of a command that a job's notes keep."""
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
"""The signals that are meant for tasks, but would end this command, too."""


_OF_STEPS = frozenset(
    {"label", "kill-on-bad-exit", "output", "error", "input", "open-mode", "wait", "mpi",
     "unbuffered"}
)  # fmt: skip
"""The options that environment variables can set inside a job. Inside a job, all other such
variables describe the job, and set no option.
"""


class _Held(Allocation):
    """An allocation that prints Slurm's messages of salloc and srun."""

    def __init__(self, command: str, spec: JobSpec, is_quiet: bool) -> None:
        super().__init__(address(), spec, is_quiet)
        self._command = command
        self._number = spec.name

    def submit(self) -> None:
        submit_with_streams(self._address, self._spec, "pipes", is_quiet=True)

    def __enter__(self) -> Self:
        super().__enter__()
        self._tell(f"Granted job allocation {self._number}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._tell(f"Relinquishing job allocation {self._number}")
        self._is_quiet = True
        super().__exit__(kind, error, at)

    def _tell(self, text: str) -> None:
        if self._command == "salloc" and not self._is_quiet:
            say(f"salloc: {text}", err=True)


@contextmanager
def allocation(
    command: str, asked: dict[str, str], argv: Sequence[str]
) -> Iterator[tuple[Allocation, Places]]:
    """Hold an allocation for these options during the block, in which `argv` runs."""
    try:
        nodes = AskedNodes(asked)
        asked = nodes.asked
        shape = shape_of(asked, nodes.node_cpus)
        env = exported({"export": "NONE"}, {})
        made: list[_Held] = []
        with ExitStack() as stack:

            def submit(number: int) -> JobSpec:
                notes = {"program": shlex.join(argv)[:_MOST_LETTERS]}
                spec = job_spec(
                    number, asked, shape, HOLDER, HOLDER, env, notes=notes, hosts=nodes.hosts
                )
                held = _Held(command, spec, is_quiet="quiet" in asked)
                held.submit()
                made.append(held)
                return spec

            with_number(address(), submit)
            held = stack.enter_context(made[0])
            yield held, places_of(held.job, shape.tasks_per_member)
    except OptionError as error:
        refuse(command, str(error))


def salloc(words: Sequence[str]) -> None:
    """Hold an allocation while a command runs on this machine. By default the command is a
    shell.
    """
    asked, rest = read("salloc", ALLOCATION, words)
    asked = from_environment("SALLOC_", ALLOCATION, os.environ) | asked
    asked.setdefault("job-name", "interactive")
    argv = rest or [os.environ.get("SHELL") or "/bin/sh"]
    with allocation("salloc", asked, argv) as (held, places):
        told = allocation_variables(places, asked) | {"PATH": own_path(os.environ)}
        code = held.run_here(argv, told)
    raise Ended(code)


def own_path(variables: Mapping[str, str]) -> str:
    """Return PATH with the directory of these commands first, because the machine may also have
    Slurm's own commands.
    """
    path = variables.get("PATH", os.defpath)
    own = os.path.dirname(os.path.abspath(sys.argv[0]))
    is_there = all(os.path.exists(os.path.join(own, name)) for name in ("srun", "scontrol"))
    return f"{own}:{path}" if is_there and path.partition(":")[0] != own else path


def allocation_variables(places: Places, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a command in an allocation. `asked`: the options for
    which the allocation was made.
    """
    own = job_variables(int(places.number), asked, shape_of(asked), places.job.queue)
    told = own | step_variables(places)
    if not counts_tasks(asked):
        del told["SLURM_NTASKS"], told["SLURM_NPROCS"]
    return told


def step_variables(places: Places) -> dict[str, str]:
    """Return the variables of a command that runs inside a job."""
    job, each = places.job, places.tasks_per_member
    return {
        "SLURM_JOB_ID": places.number,
        "SLURM_JOBID": places.number,
        "SLURM_JOB_NAME": job.annotations.get("slurm/name", job.name),
        "SLURM_JOB_PARTITION": job.queue,
        "SLURM_SUBMIT_DIR": os.environ.get("SLURM_SUBMIT_DIR") or current_directory(),
        "SLURM_CLUSTER_NAME": CLUSTER,
        "PHALANX_SLURM_TASKS_PER_MEMBER": str(each),
        **slurm_variables(places.nodes, places.hosts, each, places.tasks, places.cpus),
    }


def srun(words: Sequence[str]) -> None:
    """Run tasks. Inside a job they run in that job's members, otherwise in a new job."""
    asked, argv = read("srun", STEP, words)
    if asked.get("mpi") == "list":
        say("MPI plugin types are...\n\tnone", err=True)
        return
    if not argv:
        refuse("srun", "fatal: No command given to execute.")
    within = array_task_or_job(asked["jobid"]) if "jobid" in asked else _job_around(os.environ)
    told = from_environment("SLURM_", STEP, os.environ)
    own = from_environment("SRUN_", STEP, os.environ)
    if within:
        told = {name: value for name, value in told.items() if name in _OF_STEPS}
        asked = told | own | asked
        _leave_warnings_to_tasks()
        found = ask(address(), GetJob(within))
        if not found.members:
            refuse("srun", f"job {within} has no place to run in: {found.state}")
        each = int(os.environ.get("PHALANX_SLURM_TASKS_PER_MEMBER") or 1)
        raise Ended(_run(asked, places_of(found, each), argv, is_within=True))
    if "pty" in asked:
        asked.setdefault("ntasks", "1")
    asked = told | own | asked
    asked.setdefault("job-name", os.path.basename(argv[0]))
    if "test-only" in asked:
        try:
            shape = shape_of(asked)
        except OptionError as error:
            refuse("srun", str(error))
        queue = asked.get("partition", "default")
        say(f"srun: {shape.text} in queue {queue}", err=True)
        return
    with allocation("srun", asked, argv) as (held, places):
        held.code = _run(_without_amounts(asked), places, argv, is_within=False)
    raise Ended(held.code)


def _without_amounts(asked: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that chose the job's places, because the first step uses all
    of these places.
    """
    of_jobs = ("nodelist", "exclude", "gres", "gpus", "gpus-per-node", "time", "nodes")
    return {name: value for name, value in asked.items() if name not in of_jobs}


def _job_around(environ: Mapping[str, str]) -> str:
    """Return the job or array task in which this command runs; "" outside of jobs."""
    job = environ.get("SLURM_JOB_ID", "")
    is_element = job and environ.get("SLURM_ARRAY_JOB_ID") == job
    return array_task_or_job(f"{job}_{environ['SLURM_ARRAY_TASK_ID']}") if is_element else job


def _leave_warnings_to_tasks() -> None:
    """Ignore the signals of `--signal` in this process. All processes of a batch script get such a
    signal. Tasks get it from their nodes, and this command goes on until the tasks have ended.
    """
    for name in WARNINGS:
        signal.signal(name, signal.SIG_IGN)


def _run(asked: Mapping[str, str], places: Places, argv: Sequence[str], *, is_within: bool) -> int:
    """Run a step. Returns the largest exit code of its tasks. `is_within`: whether the step runs
    inside a job that goes on after the step. A SIGTERM is then passed on to the tasks.
    """
    try:
        members = chosen_members(asked, places)
        count = _tasks(asked, places, members)
        bad = asked.get("kill-on-bad-exit", "0")
        if bad not in ("", "0", "1"):
            raise OptionError(f"--kill-on-bad-exit={bad}: it takes 0 or 1")
        if asked.get("mpi", "none") != "none" and count > 1:
            raise OptionError(
                "--mpi: PMI is not supported; with several tasks, only none is accepted"
            )
        check_words({one: asked[one] for one in ("distribution", "clusters") if one in asked})
        if "pty" in asked and count != 1:
            raise OptionError("--pty is for one task: add --ntasks=1")
        given = _input(asked, count)
        with limits_of(asked) as limits:
            programs = _programs(asked, places, argv, count, members)
            limits.watch(programs)
            is_bad = bad in ("", "1")
            codes = follow(programs, "pty" in asked, given, ends_all=is_bad, asks_to_end=is_within)
    except OptionError as error:
        refuse("srun", str(error))
    for program in programs:
        for fd in {program.out, program.err} - {1, 2}:
            os.close(fd)
    hosts = [places.hosts.get(one, "") for one in nodes_of_tasks(places, members, count)]
    is_oom = False
    if any(codes) and not is_within:
        is_lost = any(program.code is None for program in programs)
        is_oom = tell_why(ended_job(places.job, is_lost), hosts)
    for text in end_texts(codes, hosts, is_oom):
        say(f"srun: error: {text}", err=True)
    return KILLED if is_oom else max(codes)


def _input(asked: Mapping[str, str], count: int) -> Input:
    """Return the source of the tasks' input, as --input names it: this command's own input (for all
    tasks or for one task), a file, or nothing.
    """
    wanted = asked.get("input", "all")
    if wanted == "all":
        return Input(to=None)
    if wanted == "none":
        return Input(fd=-1)
    if wanted.isdecimal():
        if int(wanted) >= count:
            raise OptionError(f"--input={wanted}: the tasks are 0 to {count - 1}")
        return Input(to=frozenset({int(wanted)}))
    try:
        return Input(os.open(wanted, os.O_RDONLY | os.O_CLOEXEC), to=None)
    except OSError as error:
        raise OptionError(f"--input={wanted}: {error.strerror}") from None


def _tasks(asked: Mapping[str, str], places: Places, members: Sequence[int]) -> int:
    most = len(members) * places.tasks_per_member
    given = asked.get("ntasks")
    nodes = len({places.nodes[rank] for rank in members})
    if given is None and "ntasks-per-node" in asked:
        given = str(nodes * whole_number(asked, "ntasks-per-node", 1, MAX_TASKS))
    if given is None and asked.keys() & {"nodes", "nodelist", "exclude", "relative"}:
        given = str(nodes) if "nodes" in asked else str(min(places.tasks, most))
    if given is None:
        return 1 if "pty" in asked else min(places.tasks, most)
    if "overcommit" in asked:
        most = MAX_TASKS
    if not given.isdecimal() or not 1 <= int(given) <= most:
        raise OptionError(f"--ntasks={given}: job {places.job.name} has places for 1 to {most}")
    return int(given)


def _programs(
    asked: Mapping[str, str],
    places: Places,
    argv: Sequence[str],
    count: int,
    members: Sequence[int],
) -> list[Program]:
    job = places.job
    uid = f"{job.namespace}/{job.name}"
    directory = os.path.abspath(asked.get("chdir") or current_directory())
    chosen = min(len(members), count)
    each = max(places.tasks_per_member, -(-count // chosen))
    commands = commands_of(argv, count, "multi-prog" in asked)
    shared = exported(asked, os.environ)
    if places.index != NO_INDEX:
        shared |= {k: v for k, v in os.environ.items() if k.startswith("SLURM_ARRAY_")}
    shared |= inherited_variables(os.environ) | step_variables(places)
    nodes = nodes_of_tasks(places, members, count)
    shared |= own_step_variables(nodes, places.hosts)
    if "PATH" in shared:
        shared["PATH"] = own_path(shared)
    begin = BeginStep(uid, list(argv), count, asked.get("job-name", ""))
    step = ask(address(), begin)
    shared |= {"SLURM_STEP_ID": str(step), "SLURM_STEPID": str(step)}
    if "cpus-per-task" in asked:
        shared["SLURM_CPUS_PER_TASK"] = asked["cpus-per-task"]
    local: dict[str, int] = {}
    programs = []
    for number, rank in enumerate(members[:chosen]):
        member = job.members[rank]
        tasks = tasks_of_member(number, chosen, each, count)
        devices = member.devices.get("GPU", [])
        for place, task in enumerate(tasks):
            local_id = local[member.node] = local.get(member.node, -1) + 1
            seen = devices_of_task(asked, devices, place, len(tasks))
            own = own_slurm_variables(places.nodes, places.hosts, member.node, devices, places.cpus)
            own |= device_variables(seen, devices)
            own |= {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(local_id)}
            own |= {"SLURM_NODEID": str(list(dict.fromkeys(nodes)).index(member.node))}
            own |= {"SLURM_GTIDS": task_numbers(nodes, member.node), "PHALANX_RANK": str(task)}
            own |= torchrun_variables(task, nodes)
            request = RunStep(
                uid, member.name, list(commands[task]), "pty" in asked, {**shared, **own},
                directory, step=step, umask=current_umask(),
            )  # fmt: skip
            process = ask(address(), request)
            label = f"{task:>{len(str(count - 1))}}: ".encode() if "label" in asked else b""
            out, err = _files(asked, places, str(step), own)
            programs.append(Program(reach(address(), process), label, out=out, err=err))
    return programs


def _files(
    asked: Mapping[str, str], places: Places, step: str, own: Mapping[str, str]
) -> tuple[int, int]:
    """Return descriptors for the output and the errors of a task. `own`: the task's variables."""
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
        "u": getpass.getuser(),
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
