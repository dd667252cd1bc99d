"""Small days for the tests: written by hand with one line for each job, or random from a seed."""

from __future__ import annotations

import random

from phalanx.scheduler.cycle.specs import Shape
from phalanx_research.timed import Job, Part
from phalanx_research.timed.workload import GPU

MODELS = {0: 4.0, 1: 7.0, 2: 10.0, 3: 38.0}


def day(text: str) -> list[Job]:
    """Return the jobs of a text with one job per line: NAME SUBMIT WORK TASKSxGPUS [key=value ...].
    The keys are fields of Job.

    `0.5` GPUs are half a device; several parts are joined by `+`.
    """
    jobs = []
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        name, submit, work, asked, *more = line.split()
        given: dict[str, object] = {}
        for pair in more:
            key, value = pair.split("=")
            kinds = {"queue": str, "user": str, "priority": int, "min_tasks": int}
            given[key] = kinds.get(key, float)(value)
        parts = []
        for part in asked.split("+"):
            count, gpus = part.split("x")
            parts.append(Part(shape=Shape(request=((GPU, float(gpus)),)), count=int(count)))
        jobs.append(
            Job(name=name, submit_s=float(submit), work_s=float(work), parts=tuple(parts), **given)  # type: ignore[arg-type]
        )
    return jobs


def training_day(seed: int, jobs: int, *, node_gpus: int = 8, spread_s: int = 200) -> list[Job]:
    """Draw jobs of 1 to 4 nodes as on a training cluster. Jobs of more than `node_gpus` GPUs use
    whole nodes.
    """
    draw = random.Random(seed)
    out = []
    now = 0.0
    for i in range(jobs):
        now += draw.choice((0, draw.randint(1, spread_s)))
        gpus = draw.choice((1, 1, 2, 4, 8, 8, 16, 32))
        count = max(1, gpus // node_gpus)
        shape = Shape(request=((GPU, gpus / count),))
        out.append(
            Job(
                name=f"j{i:04d}",
                submit_s=now,
                work_s=draw.randint(1, 20_000) * draw.choice((201, 333, 1010)) / 1000 * 1.015,
                parts=(Part(shape=shape, count=count),),
                overhead_s=MODELS[draw.randrange(4)],
            )
        )
    return out
