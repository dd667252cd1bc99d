"""What Slurm's options ask for, as a job: so many members, each a node's share or one task."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping

import msgspec

from phalanx.adapters.slurm.arrays import after_of, array_of, array_variables
from phalanx.adapters.slurm.options import OptionError
from phalanx.api.directories import current_directory
from phalanx.api.job import Job
from phalanx.model.jobs import states as st
from phalanx.model.jobs.spec import JobSpec, Policy, TaskGroup

MAX_TASKS = 100_000
LEAST_LIMIT_BYTES = 256 << 20
"""No less is a limit, as the processes of srun in a script count, too; less can be set aside."""
_COUNT = re.compile(r"[0-9]{1,7}")
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 1 << 10, "": 1 << 20, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NO_LIMIT = ("unlimited", "infinite", "0")
NOTES = ("account", "comment", "wckey")
NOTE = "slurm/"
"""Annotations of jobs that were submitted with Slurm's options begin so."""
BATCH, TASK = "batch", "task"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How many members, how many tasks each may run, and what each holds."""

    members: int
    tasks: int
    tasks_per_member: int
    cpus_per_task: int
    cpus: int
    gpus: float
    memory_bytes: float | None
    is_apart: bool
    """Whether each member is on a node of its own."""

    @property
    def memory_limit_bytes(self) -> float | None:
        """Above which a member is ended."""
        return None if self.memory_bytes is None else max(self.memory_bytes, LEAST_LIMIT_BYTES)


def shape_of(asked: Mapping[str, str]) -> Shape:
    """Where an amount is meant for a node, or nodes are counted, a member is a node's share; else
    a task. Raises OptionError."""
    nodes, tasks = _count(asked, "nodes"), _count(asked, "ntasks")
    on_node, cpus_each = _count(asked, "ntasks-per-node"), _count(asked, "cpus-per-task") or 1
    by_node = ("nodes", "ntasks-per-node", "gres", "gpus-per-node", "mem", "gpus")
    if any(name in asked for name in by_node):
        nodes = nodes or (-(-(tasks or 1) // on_node) if on_node else 1)
        tasks = tasks or nodes * (on_node or 1)
        each = on_node or -(-tasks // nodes)
        if tasks < nodes or each * nodes < tasks:
            raise OptionError(
                f"{tasks} tasks do not fit {nodes} nodes with {each} tasks each, at least one each"
            )
        members, is_apart = nodes, nodes > 1
    else:
        members, each, is_apart = tasks or 1, 1, False
        tasks = members
    if tasks > MAX_TASKS:
        raise OptionError(f"{tasks} tasks are too many; at most {MAX_TASKS} go")
    cpus = cpus_each * each
    gpus = _gpus(asked, members, each)
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


def _count(asked: Mapping[str, str], name: str) -> int | None:
    given = asked.get(name)
    if given is None:
        return None
    if not _COUNT.fullmatch(given) or int(given) == 0:
        raise OptionError(f"--{name}={given}: it is one whole number of at least 1")
    return int(given)


def _gpus(asked: Mapping[str, str], members: int, each: int) -> float:
    """Of a member."""
    found = []
    for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"):
        given = asked.get(name)
        if given is None or given.lower() == "none":
            continue
        if name == "gres":
            kind, _, given = given.partition(":")
            if kind != "gpu" or "," in given:
                raise OptionError(f"--gres={asked[name]}: only gpu:N is there")
            given = given or "1"
        if not _COUNT.fullmatch(given):
            reason = "it is a number; GPUs are not chosen by type here"
            raise OptionError(f"--{name}={asked[name]}: {reason}")
        number = int(given)
        if name == "gpus":
            if number % members:
                raise OptionError(f"--gpus={number} are not shared evenly by {members} nodes")
            number //= members
        found.append(number * each if name == "gpus-per-task" else number)
    if len(set(found)) > 1:
        raise OptionError("--gres, --gpus, --gpus-per-node and --gpus-per-task contradict")
    return found[0] if found else 0


def _memory(asked: Mapping[str, str], cpus: int, gpus: float) -> float | None:
    """Bytes of a member."""
    found = None
    for name, times in (("mem", 1.0), ("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
        given = asked.get(name)
        if given is None:
            continue
        match = _MEMORY.fullmatch(given)
        if match is None or float(match.group(1)) == 0:
            raise OptionError(f"--{name}={given}: it is more than 0, as 4000 (MiB), 4G or 500M")
        if found is not None:
            raise OptionError("--mem, --mem-per-cpu and --mem-per-gpu exclude one another")
        if not times:
            raise OptionError(f"--{name}: no GPUs are asked for")
        found = float(match.group(1)) * _UNITS[match.group(2).upper()] * times
    return found


def exported(asked: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that `--export` has go along: by default all."""
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
        name: value for name, value in env.items() if not name.startswith(("SLURM_", "PHALANX_JOB"))
    }


def job_spec(
    number: int,
    asked: Mapping[str, str],
    shape: Shape,
    command: tuple[str, ...],
    holder: tuple[str, ...],
    variables: Mapping[str, str],
    plugin: tuple[str, ...] = (),
) -> JobSpec:
    """A job that is called by its number. Its first member runs `command`, the others `holder`, and
    it is over when the first is. Raises OptionError."""
    name = asked.get("job-name", "")
    limit = asked.get("time")
    directory = os.path.abspath(asked.get("chdir") or current_directory())
    mine = {
        "SLURM_JOB_ID": str(number),
        "SLURM_JOBID": str(number),
        "SLURM_JOB_NAME": name,
        "SLURM_JOB_PARTITION": asked.get("partition", "default"),
        "SLURM_JOB_USER": getpass.getuser(),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_CLUSTER_NAME": "phalanx",
        "SLURM_SUBMIT_DIR": current_directory(),
        "SLURM_SUBMIT_HOST": socket.gethostname(),
        "SLURM_JOB_CPUS_PER_NODE": str(shape.cpus),
        "SLURM_CPUS_ON_NODE": str(shape.cpus),
        "SLURM_CPUS_PER_TASK": str(shape.cpus_per_task),
        "PHALANX_SLURM_TASKS_PER_MEMBER": str(shape.tasks_per_member),
    }
    mine |= array_variables(asked, number)
    if "account" in asked:
        mine["SLURM_JOB_ACCOUNT"] = asked["account"]
    if "ntasks-per-node" in asked:
        mine["SLURM_NTASKS_PER_NODE"] = asked["ntasks-per-node"]
    if shape.memory_bytes is not None:
        mine["SLURM_MEM_PER_NODE"] = str(int(shape.memory_bytes) >> 20)
    if shape.gpus:
        mine["SLURM_GPUS_PER_NODE"] = f"{shape.gpus:g}"
    try:
        job = Job(
            command,
            name=str(number),
            members=shape.members,
            queue=asked.get("partition", "default"),
            priority=_priority(asked),
            num_cpus=shape.cpus,
            num_gpus=shape.gpus,
            memory=shape.memory_bytes,
            memory_limit=shape.memory_limit_bytes,
            env={**variables, **mine},
            working_dir=directory,
            time=None if limit is None or limit.lower() in _NO_LIMIT else limit,
            begin=asked.get("begin"),
            deadline=asked.get("deadline"),
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
    notes = {"name": name, "user": getpass.getuser(), "directory": directory}
    notes |= {} if command == holder else {"script": "yes"}
    notes |= {one: asked[one] for one in NOTES if one in asked}
    notes |= {"tasks": str(shape.tasks), "cpus": str(shape.cpus * shape.members)}
    arguments = (f"--tasks={shape.tasks}", f"--tasks-per-member={shape.tasks_per_member}", *plugin)
    return msgspec.structs.replace(
        spec,
        groups=_groups(spec.groups[0], shape, str(number), holder),
        plugins=(("slurm", arguments),),
        annotations=tuple((NOTE + key, value) for key, value in notes.items()),
    )


def _groups(
    one: TaskGroup, shape: Shape, label: str, holder: tuple[str, ...]
) -> tuple[TaskGroup, ...]:
    template = one.template
    if shape.is_apart:
        term = {"labelSelector": {"matchLabels": {"slurm": label}}, "topologyKey": "ray.io/node-id"}
        must = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        placement = {"affinity": {"podAntiAffinity": must}}
        template = msgspec.structs.replace(
            template, labels=(("slurm", label),), placement=placement
        )
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
    given = asked.get("priority", "0")
    if not given.lstrip("-").isdecimal():
        raise OptionError(f"--priority={given}: it is a whole number")
    return int(given)
