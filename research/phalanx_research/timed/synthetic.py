"""A day of a shared cluster drawn from a seed, with any number of tasks and machines. Half of the
machines have 64 cores, and the other half 96 cores and 8 GPUs. Two of five tasks request 1, 2, 4 or
8 GPUs, and the others 1 to 8 cores. They come in gangs of 1 to 64 tasks from twenty queues, twice
as often at noon as at midnight. Run times are log-normal, with a mean of about an hour for 100
tasks per machine. So seven tenths of the GPUs are requested on average over the day, and nearly all
at noon.
"""

from __future__ import annotations

import math
import random

from phalanx.scheduler.cycle.specs import NodeSpec, QueueSpec, Shape
from phalanx_research.timed.workload import GPU, Job, Part, machine

DAY_S = 86_400.0
QUEUES = 20
GPU_SIZES = (1, 1, 2, 4, 8, 8)
CPU_SIZES = (1, 1, 1, 1, 2, 2, 4, 8, 16, 64)
"""The sizes of CPU gangs, repeated by their frequency. The mean is ten tasks."""
GPU_GANGS = 0.625
"""The fraction of gangs that request GPUs. With it, two of five tasks request GPUs."""
GPUS = (1, 1, 1, 2, 2, 4, 8)
SPREAD = 1.2
"""The standard deviation of the logarithm of run times."""
LOAD = 0.7
"""The fraction of the GPUs that the day's tasks request on average."""


def machines(count: int) -> list[NodeSpec]:
    """Return machines, alternately of the two kinds."""
    width = len(str(count))
    return [
        machine(
            f"node-{i:0{width}d}",
            cpu=96 if i % 2 else 64,
            memory=768e9 if i % 2 else 256e9,
            gpus=8 if i % 2 else 0,
        )
        for i in range(count)
    ]


def queues() -> tuple[QueueSpec, ...]:
    """Return twenty queues of weights 1 to 4."""
    return tuple(QueueSpec(name=f"q{i:02d}", weight=1 + i % 4) for i in range(QUEUES))


def jobs(tasks: int, nodes: int, seed: int) -> list[Job]:
    """Return jobs with this number of tasks in total over a day, by time of submission. Equal
    arguments give equal days.
    """
    draw = random.Random(seed)
    on_gpus, on_cores = _gpu_shapes(), _core_shapes()
    parts: list[Part] = []
    left = tasks
    while left:
        gpus = draw.random() < GPU_GANGS
        size = min(left, draw.choice(GPU_SIZES if gpus else CPU_SIZES))
        parts.append(Part(shape=draw.choice(on_gpus if gpus else on_cores), count=size))
        left -= size
    times = sorted(_time_of_day(draw) for _ in parts)
    gpu_tasks = 0.4 * tasks
    mean_s = LOAD * (nodes // 2 * 8) * DAY_S / (gpu_tasks * sum(GPUS) / len(GPUS))
    mu = math.log(mean_s) - SPREAD**2 / 2
    width = len(str(len(parts)))
    return [
        Job(
            name=f"j{i:0{width}d}",
            submit_s=time,
            work_s=float(max(1, min(round(draw.lognormvariate(mu, SPREAD)), int(DAY_S)))),
            parts=(part,),
            queue=f"q{draw.randrange(QUEUES):02d}",
            priority=draw.choice((0, 0, 0, 1)),
        )
        for i, (time, part) in enumerate(zip(times, parts, strict=True))
    ]


def _time_of_day(draw: random.Random) -> float:
    """Draw whole seconds by rejection, with a density between 2/3 at midnight and 4/3 at noon."""
    while True:
        time = draw.random() * DAY_S
        if draw.random() * 4 / 3 <= 1 - math.cos(2 * math.pi * time / DAY_S) / 3:
            return float(int(time))


def _gpu_shapes() -> list[Shape]:
    return [
        Shape(
            request=(("cpu", 2.0 * gpus + more), ("memory", 16e9 * gpus), (GPU, float(gpus))),
            role="w",
        )
        for more in range(4)
        for gpus in GPUS
    ]


def _core_shapes() -> list[Shape]:
    return [
        Shape(request=(("cpu", 1.0 + i % 8), ("memory", (2.0 + i // 8) * 1e9)), role="w")
        for i in range(42)
    ]
