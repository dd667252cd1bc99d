"""Translates Slurm's options into a job. A member of the job is a share of a node, or a single
task.
"""

from __future__ import annotations

import getpass
import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from phalanx.adapters.slurm.arrays import after_of, array_of, array_variables
from phalanx.adapters.slurm.marks import CLUSTER, NOTE, check_words
from phalanx.adapters.slurm.nodes import choice_of, gpu_fields, gres_count, shared_gpu, typed_count
from phalanx.adapters.slurm.options import OptionError
from phalanx.adapters.slurm.times import slurm_length, slurm_moment
from phalanx.api.directories import current_directory
from phalanx.api.job import Job
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec, Policy, TaskGroup
from phalanx.model.readable import size

MAX_TASKS = 100_000
LEAST_LIMIT_BYTES = 256 << 20
"""The smallest memory limit in bytes. The limit must leave room for the processes of srun in a
script, too. A job may reserve less.
"""
_COUNT = re.compile(r"[0-9]{1,7}")
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_RANGE = re.compile(r"([0-9]{1,7})-([0-9]{1,7})")
NOTES = (
    "account", "comment", "wckey", "qos", "nice", "constraint", "nodelist", "exclude", "mail-user",
)  # fmt: skip
"""The options whose values are kept for listings."""
_NICE = 100
BATCH, TASK = "batch", "task"
_BY_NODE = (
    "nodes", "ntasks-per-node", "gres", "gpus-per-node", "mem", "gpus", "exclusive", "overcommit",
)  # fmt: skip
"""The options that make a member a share of a node instead of a task."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a job: its members, their tasks, and the amounts that each member holds."""

    members: int
    tasks: int
    tasks_per_member: int
    cpus_per_task: int
    cpus: int
    gpus: float
    memory_bytes: float | None
    is_apart: bool
    """Whether each member is on a different node."""

    @property
    def memory_limit_bytes(self) -> float | None:
        """The bytes of memory above which a member is killed; None: no limit."""
        return None if self.memory_bytes is None else max(self.memory_bytes, LEAST_LIMIT_BYTES)

    @property
    def text(self) -> str:
        """The size in words."""
        parts = [_counted(self.cpus, "CPU")]
        parts += [_counted(self.gpus, "GPU")] if self.gpus else []
        parts += [] if self.memory_bytes is None else [f"{size(self.memory_bytes)} of memory"]
        amounts = ", ".join(parts[:-1]) + (" and " if parts[:-1] else "") + parts[-1]
        each = " each" if self.members > 1 else ""
        nodes = " on different nodes" if self.is_apart else ""
        return f"{_counted(self.members, 'member')} of {amounts}{each}{nodes}"


def _counted(number: float, word: str) -> str:
    return f"{number:g} {word}" if number == 1 else f"{number:g} {word}s"


def shape_of(asked: Mapping[str, str], node_cpus: int = 0) -> Shape:
    """Return the size of the job that options describe. A member is a share of a node if an option
    counts nodes or gives an amount per node; otherwise a member is a task. `node_cpus`: CPUs of a
    whole node, for `--exclusive`. Raises OptionError.
    """
    check_words(asked)
    nodes, tasks = _nodes(asked), _count(asked, "ntasks")
    on_node, cpus_each = _count(asked, "ntasks-per-node"), _count(asked, "cpus-per-task") or 1
    on_gpu = _count(asked, "ntasks-per-gpu")
    if on_gpu and tasks is None and on_node is None:
        tasks = _all_gpus(asked, nodes or 1) * on_gpu or None
    if any(name in asked for name in _BY_NODE):
        nodes = nodes or (-(-(tasks or 1) // on_node) if on_node else 1)
        tasks = tasks or nodes * (on_node or 1)
        each = on_node or -(-tasks // nodes)
        if tasks < nodes or each * nodes < tasks:
            raise OptionError(
                f"{tasks} tasks do not fit on {nodes} nodes with at least 1 and at most {each} each"
            )
        members, is_apart = nodes, nodes > 1
    else:
        members, each, is_apart = tasks or 1, 1, False
        tasks = members
    if tasks > MAX_TASKS:
        raise OptionError(f"{tasks} tasks are too many; the limit is {MAX_TASKS}")
    gpus = _gpus(asked, members, each)
    tasks_at_once = 1 if "overcommit" in asked else each
    cpus = max(cpus_each * tasks_at_once, int(gpus) * (_count(asked, "cpus-per-gpu") or 0))
    if "exclusive" in asked:
        cpus = max(cpus, node_cpus)
    return Shape(
        members=members,
        tasks=tasks,
        tasks_per_member=each,
        cpus_per_task=cpus_each,
        cpus=cpus,
        gpus=gpus,
        memory_bytes=_memory(asked, cpus, gpus),
        is_apart=is_apart,
    )


def _nodes(asked: Mapping[str, str]) -> int | None:
    """Return the number of nodes that the options request; for a range, its lower end."""
    match = _RANGE.fullmatch(asked.get("nodes", ""))
    if match is None:
        return _count(asked, "nodes")
    if not 0 < int(match.group(1)) <= int(match.group(2)):
        raise OptionError(f"--nodes={asked['nodes']}: it takes a number of at least 1, or MIN-MAX")
    return int(match.group(1))


def _count(asked: Mapping[str, str], name: str) -> int | None:
    given = asked.get(name)
    if given is None:
        return None
    if not _COUNT.fullmatch(given) or int(given) == 0:
        raise OptionError(f"--{name}={given}: it takes one whole number of at least 1")
    return int(given)


def _all_gpus(asked: Mapping[str, str], nodes: int) -> int:
    if "gpus" in asked:
        return typed_count("gpus", asked["gpus"])[1]
    for name, read in (("gres", gres_count), ("gpus-per-node", None)):
        if name in asked:
            given = asked[name]
            return nodes * (read(given) if read else typed_count(name, given))[1]
    return 0


def _gpus(asked: Mapping[str, str], members: int, each: int) -> float:
    found = []
    for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        given = asked.get(name)
        if given is None or given.lower() == "none":
            continue
        if name == "gres" and shared_gpu(given):
            found.append(0)
            continue
        _, number = gres_count(given) if name == "gres" else typed_count(name, given)
        if name == "gpus":
            if number % members:
                raise OptionError(f"--gpus={number} cannot be shared evenly by {members} nodes")
            number //= members
        found.append(number * each if name == "gpus-per-task" else number)
    if len(set(found)) > 1:
        raise OptionError(
            "--gres, --gpus, --gpus-per-node and --gpus-per-task contradict each other"
        )
    return found[0] if found else 0


def _memory(asked: Mapping[str, str], cpus: int, gpus: float) -> float | None:
    """Return the bytes of memory that a member reserves; None if it reserves none, for example with
    `--mem=0`.
    """
    found = None
    for name, times in (("mem", 1.0), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        given = asked.get(name)
        if given is None:
            continue
        match = _MEMORY.fullmatch(given)
        if match is None:
            raise OptionError(f"--{name}={given}: it takes a size such as 4000 (MiB), 4G or 500M")
        if found is not None:
            raise OptionError("--mem, --mem-per-cpu and --mem-per-gpu cannot be combined")
        if not times:
            raise OptionError(f"--{name}: no GPUs are asked for")
        found = float(match.group(1)) * _UNITS[match.group(2).upper()] * times
    return found or None


def exported(asked: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that `--export` passes on to the job; by default all."""
    given = asked.get("export", "ALL")
    words = [word for word in given.split(",") if word]
    env = dict(variables) if "ALL" in words else {}
    for word in words:
        name, is_set, value = word.partition("=")
        if word in ("ALL", "NONE", "NIL"):
            continue
        if is_set:
            env[name] = value
        elif name in variables:
            env[name] = variables[name]
    return {
        name: value
        for name, value in env.items()
        if not name.startswith(("SLURM_", "SLURMD_", "PHALANX_JOB", "PHALANX_SLURM_"))
    }


def job_spec(
    number: int,
    asked: Mapping[str, str],
    shape: Shape,
    command: tuple[str, ...],
    holder: tuple[str, ...],
    variables: Mapping[str, str],
    plugin: tuple[str, ...] = (),
    notes: Mapping[str, str] | None = None,
    hosts: Mapping[str, str] | None = None,
) -> JobSpec:
    """Return the job that options describe, named by its number.

    The first member runs `command`, and all other members run `holder`. The job ends with the first
    member. `notes`: further values for listings. `hosts`: host names by address. Raises
    OptionError.
    """
    directory = os.path.abspath(asked.get("chdir") or current_directory())
    queue = asked.get("partition", "default").partition(",")[0]
    try:
        job = Job(
            command,
            name=str(number),
            members=shape.members,
            queue=queue,
            priority=_priority(asked),
            num_cpus=shape.cpus,
            **gpu_fields(asked, shape.gpus),
            memory=shape.memory_bytes,
            memory_limit=shape.memory_limit_bytes,
            env={**variables, **job_variables(number, asked, shape, queue)},
            working_dir=directory,
            time=_limit(asked),
            begin=_moment(asked, "begin"),
            deadline=_moment(asked, "deadline"),
            signal=asked.get("signal"),
            requeue={"reasons": []} if "no-requeue" in asked else None,
            hold="hold" in asked,
            after=after_of(asked),
            array=array_of(asked, shape.members),
            reservation=asked.get("reservation"),
            licenses=asked.get("licenses"),
        )
        spec = job.spec()
    except (ValueError, TypeError) as error:
        raise OptionError(str(error)) from None
    arguments = (
        f"--tasks={shape.tasks}",
        f"--tasks-per-member={shape.tasks_per_member}",
        f"--cpus-per-member={shape.cpus}",
        *(() if counts_tasks(asked) else ("--counts=nodes",)),
        *plugin,
    )
    kept = _notes(asked, shape, directory) | dict(notes or {})
    kept |= {} if command == holder else {"script": "yes"}
    choice = choice_of(asked, hosts or {})
    return msgspec.structs.replace(
        spec,
        groups=_groups(spec.groups[0], shape, str(number), holder, choice),
        plugins=(("slurm", arguments),),
        annotations=tuple((NOTE + key, value) for key, value in kept.items()),
    )


def counts_tasks(asked: Mapping[str, str]) -> bool:
    """Whether the options give the number of tasks. Only then have the job's variables this
    number.
    """
    return any(name.startswith("ntasks") for name in asked)


def job_variables(
    number: int, asked: Mapping[str, str], shape: Shape, queue: str
) -> dict[str, str]:
    """Return the variables of a job that do not depend on its places."""
    mine = {
        "SLURM_JOB_ID": str(number),
        "SLURM_JOBID": str(number),
        "SLURM_JOB_NAME": asked.get("job-name", ""),
        "SLURM_JOB_PARTITION": queue,
        "SLURM_JOB_USER": getpass.getuser(),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_CLUSTER_NAME": CLUSTER,
        "SLURM_SUBMIT_DIR": current_directory(),
        "SLURM_SUBMIT_HOST": os.uname().nodename,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_PRIO_PROCESS": "0",
        "PHALANX_SLURM_TASKS_PER_MEMBER": str(shape.tasks_per_member),
    }
    mine |= array_variables(asked, number)
    told = {
        "account": "SLURM_JOB_ACCOUNT",
        "qos": "SLURM_JOB_QOS",
        "reservation": "SLURM_JOB_RESERVATION",
        "cpus-per-task": "SLURM_CPUS_PER_TASK",
        "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
        "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
        "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
        "gpus": "SLURM_GPUS",
        "gpus-per-task": "SLURM_GPUS_PER_TASK",
        "distribution": "SLURM_DISTRIBUTION",
        "export": "SLURM_EXPORT_ENV",
    }
    mine |= {name: asked[option] for option, name in told.items() if option in asked}
    if shape.memory_bytes is not None:
        per = {"mem-per-cpu": ("CPU", shape.cpus), "mem-per-gpu": ("GPU", int(shape.gpus))}
        name, parts = next((per[one] for one in per if one in asked), ("NODE", 1))
        mine[f"SLURM_MEM_PER_{name}"] = str(int(shape.memory_bytes / parts) >> 20)
    if shape.gpus:
        mine["SLURM_GPUS_PER_NODE"] = asked.get("gpus-per-node", f"{shape.gpus:g}")
    return mine


def _notes(asked: Mapping[str, str], shape: Shape, directory: str) -> dict[str, str]:
    """Return the notes of a job: values that have no effect on the job, and that Slurm's listings
    show.

    File names keep their %-letters, so that equal jobs have equal notes.
    """
    notes = {
        "name": asked.get("job-name", ""),
        "user": getpass.getuser(),
        "directory": directory,
        "tasks": str(shape.tasks),
        "cpus": str(shape.cpus * shape.members),
    }
    notes |= {one: asked[one] for one in NOTES if one in asked}
    if shape.is_apart:
        notes["apart"] = "yes"
    if "nice" in asked:
        notes["nice"] = asked["nice"] or str(_NICE)
    if shape.memory_bytes is not None:
        notes["memory"] = str(int(shape.memory_bytes) >> 20)
    if shape.gpus:
        notes["gpus"] = f"{shape.gpus:g}"
    for option in ("cpus-per-task", "ntasks-per-node", "mem-per-cpu"):
        notes |= {option: asked[option]} if option in asked else {}
    return notes


def _limit(asked: Mapping[str, str]) -> str | None:
    """Return a time limit as text. A value in one of Slurm's forms becomes seconds; any other value
    is kept for `Job` to read.
    """
    if "time" not in asked:
        return None
    try:
        seconds = slurm_length(asked["time"])
    except ValueError:
        return asked["time"]
    return None if seconds is None else f"{seconds:.0f}s"


def _moment(asked: Mapping[str, str], option: str) -> datetime | str | None:
    """Return a moment. A value in one of Slurm's forms becomes a datetime; any other value is kept
    for `Job` to read.
    """
    if option not in asked:
        return None
    try:
        return datetime.fromtimestamp(slurm_moment(asked[option], time.time()))
    except ValueError:
        return asked[option]


def _groups(
    one: TaskGroup,
    shape: Shape,
    label: str,
    holder: tuple[str, ...],
    choice: Sequence[Mapping[str, Any]],
) -> tuple[TaskGroup, ...]:
    template = one.template
    affinity: dict[str, Any] = {}
    if choice:
        terms = {"nodeSelectorTerms": list(choice)}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if shape.is_apart:
        term = {"labelSelector": {"matchLabels": {"slurm": label}}, "topologyKey": "ray.io/node-id"}
        must = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        affinity["podAntiAffinity"] = must
        template = msgspec.structs.replace(template, labels=(("slurm", label),))
    if affinity:
        template = msgspec.structs.replace(template, placement={"affinity": affinity})
    replace = msgspec.structs.replace
    over = Policy(action=st.COMPLETE_JOB, events=(st.TASK_COMPLETED,))
    first = replace(
        one, name=BATCH, replicas=1, min_available=1, template=template, policies=(over,)
    )
    if shape.members == 1:
        return (first,)
    held = replace(template.processes[0], command=holder)
    others = replace(
        one,
        name=TASK,
        replicas=shape.members - 1,
        min_available=shape.members - 1,
        template=replace(template, processes=(held,)),
    )
    return (first, others)


def _priority(asked: Mapping[str, str]) -> int:
    """Return the priority minus the value of `--nice`; without a value, `--nice` means 100."""
    found = []
    for option in ("priority", "nice"):
        given = asked.get(option, "0") or str(_NICE)
        if not given.removeprefix("-").isdecimal():
            raise OptionError(f"--{option}={given}: it takes a whole number")
        found.append(int(given))
    return found[0] - found[1]
