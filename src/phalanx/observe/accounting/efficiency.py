"""The efficiency of a job: the used part of the resources that it held, as in `seff`, with GPUs and
a sentence of advice.

CPU = CPU seconds used / CPU seconds held. Memory = the largest peak of a member / the request of
that member. GPU = the mean part of the time in which the job's devices computed. Attempts of
unknown usage are left out, and their number is given. A job gets advice if it uses less than 15 %
of its GPUs or 65 % of its CPUs; Princeton's jobstats has the same thresholds. A run of less than
five minutes gets no advice, since starting takes too large a part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.model.attempts import MEMBER_COMPLETED, Attempt, Used
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.states import TERMINATED

VERDICT_S = 300.0
LOW_GPU = 0.15
LOW_CPU = 0.65
LOW_MEMORY = 0.25
HIGH_MEMORY = 0.95
LEAST_MEMORY = 2**30
"""Bytes of requested memory below which no advice about memory is given."""


class Efficiency(msgspec.Struct, frozen=True, kw_only=True):
    """The efficiency of one job. Parts are from 0 to 1; None if unknown, or if the job requested
    nothing of the resource.
    """

    job: str
    user: str
    queue: str
    state: str
    exit_code: int | None
    signal: int
    tasks: dict[str, int] = {}
    """For an array: the number of its ended tasks in each state."""
    attempts: int
    unknown: int
    """The number of the job's attempts whose usage is unknown."""
    nodes: int
    cpus: float
    """The sum of the CPUs that the job's members held, each in its last attempt. `memory` and
    `gpus` are such sums, too.
    """
    memory: float
    gpus: float
    elapsed_s: float
    """The seconds from the first start to the last end."""
    held_cpu_s: float
    cpu_s: float
    cpu: float | None
    memory_max: float | None
    """The peak of the member that used most, in bytes."""
    member_memory: float
    """The bytes that the member with that peak had requested."""
    memory_part: float | None
    gpu: float | None
    gpu_idle_s: float | None
    """The device-seconds in which the job's devices computed nothing."""
    gpu_memory_max: float | None
    gpu_memory_part: float | None
    advice: str


def efficiency(attempts: Sequence[Attempt]) -> Efficiency:
    """Return the efficiency of a job, computed from its attempts. At least one attempt is
    needed.
    """
    last = max(attempts, key=lambda one: one.ended)
    known = [(one, one.used) for one in attempts if one.used is not None]
    held_cpu_s = sum(one.cpus * one.elapsed_s for one, _ in known)
    cpu_s = sum(used.cpu_s for _, used in known)
    sampled = [(one, used) for one, used in known if used.memory_max]
    peak = max(sampled, key=lambda pair: pair[1].memory_max, default=None)
    on_gpus = [(one, used) for one, used in known if used.gpus]
    device_s = sum(used.gpus * one.elapsed_s for one, used in on_gpus)
    gpu = _part(sum(u.gpu_mean * u.gpus * one.elapsed_s for one, u in on_gpus), device_s)
    fullest = max((u for _, u in on_gpus), key=lambda used: used.gpu_memory_max, default=None)
    latest: dict[tuple[str, str], Attempt] = {}
    for one in sorted(attempts, key=lambda one: one.attempt):
        latest[one.job, one.member] = one
    array = split_element(last.job)
    state, exit_code, signal = _outcome(list(latest.values()))
    memory_part = None if peak is None else _part(peak[1].memory_max, peak[0].memory)
    cpu = _part(cpu_s, held_cpu_s)
    return Efficiency(
        job=last.job if array is None or len({job for job, _ in latest}) == 1 else array[0],
        user=last.user,
        queue=last.queue,
        state=state,
        exit_code=exit_code,
        signal=signal,
        tasks={} if array is None else _tasks(latest),
        attempts=len(attempts),
        unknown=len(attempts) - len(known),
        nodes=len({one.node for one in attempts if one.node}),
        cpus=sum(one.cpus for one in latest.values()),
        memory=sum(one.memory for one in latest.values()),
        gpus=sum(one.gpus for one in latest.values()),
        elapsed_s=max(last.ended - min(one.started for one in attempts), 0.0),
        held_cpu_s=held_cpu_s,
        cpu_s=cpu_s,
        cpu=cpu,
        memory_max=None if peak is None else peak[1].memory_max,
        member_memory=max(a.memory for a in attempts) if peak is None else peak[0].memory,
        memory_part=memory_part,
        gpu=gpu,
        gpu_idle_s=sum(used.gpu_idle_s for _, used in on_gpus) if on_gpus else None,
        gpu_memory_max=None if fullest is None else fullest.gpu_memory_max,
        gpu_memory_part=(
            None if fullest is None else _part(fullest.gpu_memory_max, fullest.gpu_memory_total)
        ),
        advice=_advice([one.elapsed_s for one, _ in known], cpu, peak, gpu),
    )


def _outcome(latest: Sequence[Attempt]) -> tuple[str, int | None, int]:
    """Return the state of a job, and the exit code and the signal that belong to it. `latest`: the
    last attempt of each member.

    The first member that did not complete decides. Members that were ended because another member
    completed, or because the job became smaller, do not.
    """
    amiss = [one for one in latest if one.state != MEMBER_COMPLETED]
    if len(amiss) < len(latest):
        amiss = [one for one in amiss if one.state != TERMINATED]
    if not amiss:
        return MEMBER_COMPLETED, 0, 0
    first = min(amiss, key=lambda one: (one.ended, not one.exit_code))
    return first.state, first.exit_code, first.signal


def _tasks(latest: Mapping[tuple[str, str], Attempt]) -> dict[str, int]:
    """Return the number of an array's ended tasks in each state."""
    by_task: dict[str, list[Attempt]] = {}
    for (job, _), one in latest.items():
        by_task.setdefault(job, []).append(one)
    return dict(sorted(Counter(_outcome(one)[0] for one in by_task.values()).items()))


def _part(used: float, held: float) -> float | None:
    return used / held if held > 0 else None


def _advice(
    lengths_s: Sequence[float],
    cpu: float | None,
    peak: tuple[Attempt, Used] | None,
    gpu: float | None,
) -> str:
    """Return one sentence of advice. Advice about GPUs comes first, because they cost most."""
    if not lengths_s:
        return "Its use is not known: its nodes died, or its places were taken."
    if max(lengths_s) < VERDICT_S:
        return f"It ran less than {VERDICT_S / 60:g} minutes, too short for a verdict."
    if gpu is not None and gpu < LOW_GPU:
        return (
            f"Its GPUs computed {gpu:.0%} of the time: check whether the program uses them at all, "
            "waits for data, or needs fewer."
        )
    asked = 0.0 if peak is None else peak[0].memory
    part = None if peak is None else _part(peak[1].memory_max, asked)
    if part is not None and part > HIGH_MEMORY:
        return f"It reached {part:.0%} of its memory: ask for a little more next time."
    if cpu is not None and cpu < LOW_CPU and gpu is None:
        return f"It used {cpu:.0%} of its CPUs: ask for fewer, or use more processes or threads."
    if part is not None and part < LOW_MEMORY and asked > LEAST_MEMORY:
        return f"It used {part:.0%} of its memory: less would let it start earlier."
    return "It used its request well."
