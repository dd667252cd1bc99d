"""The tasks of a step: their commands, devices and end messages. The functions do no I/O, except
that the file of `--multi-prog` is read.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.nodes import gres_count, shared_gpu, typed_count
from phalanx.adapters.slurm.options import OptionError

_SIGNALLED = 128
_ALL = "*"
_OF_JOBS = (
    "SLURM_JOB_", "SLURM_MEM_PER_", "SLURM_SUBMIT_", "SLURM_CPUS_PER_", "SLURM_GPUS_PER_",
    "SLURM_NTASKS_PER_", "SLURM_RESTART_COUNT", "SLURM_EXPORT_ENV", "SLURM_NODE_ALIASES",
    "SLURM_PRIO_PROCESS",
)  # fmt: skip


def inherited_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job passes on to its steps."""
    return {name: value for name, value in variables.items() if name.startswith(_OF_JOBS)}


def commands_of(argv: Sequence[str], count: int, is_several: bool) -> list[list[str]]:
    """Return the command of each task.

    `is_several`: whether `argv[0]` is the file of `--multi-prog`. Each line of this file has
    numbers of tasks and a command. Raises OptionError.
    """
    if not is_several:
        return [list(argv)] * count
    try:
        with open(argv[0], encoding="utf-8") as file:
            lines = [shlex.split(line, comments=True) for line in file]
    except (OSError, ValueError) as error:
        raise OptionError(f"--multi-prog: {argv[0]}: {error}") from None
    found: dict[int, list[str]] = {}
    for numbers, *words in filter(None, lines):
        tasks = list(range(count)) if numbers == _ALL else _numbers(argv[0], numbers)
        for offset, task in enumerate(tasks):
            told = {"%t": str(task), "%o": str(offset)}
            found.setdefault(task, [_replaced(word, told) for word in [*words, *argv[1:]]])
    for task in range(count):
        if not found.get(task):
            raise OptionError(f"Configuration file {argv[0]} invalid, no record for task id {task}")
    return [found[task] for task in range(count)]


def _replaced(word: str, told: Mapping[str, str]) -> str:
    for letter, value in told.items():
        word = word.replace(letter, value)
    return word


def _numbers(file: str, written: str) -> list[int]:
    found: list[int] = []
    for part in written.split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or not (high or low).isdecimal():
            raise OptionError(f"--multi-prog: {file}: {written} is no list of task numbers")
        found += range(int(low), int(high or low) + 1)
    return found


def devices_of_task(
    asked: Mapping[str, str], devices: Sequence[int], place: int, tasks: int
) -> Sequence[int]:
    """Return the devices of a member that its task number `place` sees. Raises OptionError if the
    options request more devices than the member holds.
    """
    if "gpus-per-task" in asked:
        each = typed_count("gpus-per-task", asked["gpus-per-task"])[1]
        if each * tasks > len(devices):
            raise OptionError(
                f"--gpus-per-task={each}: {tasks} tasks have {len(devices)} GPUs here"
            )
        return devices[place * each : (place + 1) * each]
    for option in ("gres", "gpus-per-node", "gpus"):
        given = asked.get(option)
        if given is None:
            continue
        if given.lower() == "none":
            return []
        if option == "gres" and shared_gpu(given):
            return devices
        count = (gres_count(given) if option == "gres" else typed_count(option, given))[1]
        if count > len(devices):
            raise OptionError(f"--{option}={given}: the job has {len(devices)} GPUs there")
        return devices[:count]
    return devices


def device_variables(seen: Sequence[int], devices: Sequence[int]) -> dict[str, str]:
    """Return the variables that name a task's devices among the devices of the task's member."""
    told = {}
    if seen:
        told["SLURM_STEP_GPUS"] = ",".join(map(str, seen))
        told["SLURM_GPUS_ON_NODE"] = str(len(seen))
    if list(seen) != list(devices):
        told["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, seen))
    return told


def torchrun_variables(task: int, nodes: Sequence[str]) -> dict[str, str]:
    """Return torchrun's variables of a task, as if each task were a process of one torchrun.

    A batch script has torchrun's variables of its own member, and passes them on to its steps. With
    these, all tasks of a step would have the same rank. `nodes`: the node of each task.
    """
    node = nodes[task]
    group_rank = str(list(dict.fromkeys(nodes)).index(node))
    return {
        "RANK": str(task),
        "LOCAL_RANK": str(nodes[:task].count(node)),
        "WORLD_SIZE": str(len(nodes)),
        "LOCAL_WORLD_SIZE": str(nodes.count(node)),
        "NODE_RANK": group_rank,
        "GROUP_RANK": group_rank,
        "GROUP_WORLD_SIZE": str(len(set(nodes))),
        "ROLE_RANK": str(task),
        "ROLE_WORLD_SIZE": str(len(nodes)),
    }


def task_numbers(nodes: Sequence[str], node: str) -> str:
    """Return the numbers of the tasks on a node. `nodes`: the node of each task."""
    return ",".join(str(task) for task, one in enumerate(nodes) if one == node)


def end_texts(codes: Sequence[int], hosts: Sequence[str], is_oom: bool = False) -> list[str]:
    """Return lines in srun's form about failed tasks, one for each host and exit code. `is_oom`:
    whether the tasks were killed because they used too much memory.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for task, (code, host) in enumerate(zip(codes, hosts, strict=True)):
        if code:
            groups.setdefault((host, code), []).append(task)
    return [
        f"{host}: {_several(tasks)}: {'Out Of Memory' if is_oom else _end(code)}"
        for (host, code), tasks in groups.items()
    ]


def _end(code: int) -> str:
    try:
        return signal.strsignal(code - _SIGNALLED) or ""
    except ValueError:
        return f"Exited with exit code {code}"


def _several(tasks: Sequence[int]) -> str:
    if len(tasks) == 1:
        return f"task {tasks[0]}"
    parts: list[list[int]] = []
    for task in tasks:
        if parts and task == parts[-1][1] + 1:
            parts[-1][1] = task
        else:
            parts.append([task, task])
    return "tasks " + ",".join(f"{a}-{b}" if a != b else str(a) for a, b in parts)
