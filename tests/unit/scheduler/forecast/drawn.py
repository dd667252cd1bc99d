"""Random clusters and work, and their simulation with a planner whose plans are recorded."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from phalanx.model.rows.plan import TimePlan
from phalanx.scheduler.cycle.config import Configuration, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.forecast.cycle_promises import CyclePromises
from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.plugins.reservation import PLANNER
from phalanx_research.timed import Job, Part, Result, Rules, machine, simulate
from phalanx_research.timed.workload import GPU

KEEPING = """\
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: reservation
- plugins:
  - name: capacity
  - name: predicates
  - name: binpack
"""


def keeping(text: str = KEEPING) -> Configuration:
    return parse_volcano(text, known_plugins())


class Listened:
    """A planner that records all its plans, one for each cycle."""

    def __init__(self, planner: Planner | None = None) -> None:
        self.planner = planner or Planner()
        self.plans: list[TimePlan] = []

    def promises(self, session: Session, promised: int, minimum: int) -> CyclePromises:
        found = self.planner.promises(session, promised, minimum)
        self.plans.append(self.planner.plan(session))
        return found


def machines(draw: random.Random) -> list[NodeSpec]:
    """Draw one to eight machines. Some have devices, and some have more devices than others."""
    return [
        machine(f"n{i}", cpu=draw.choice((8, 16, 64)), gpus=draw.choice((0, 4, 8, 8)))
        for i in range(draw.randint(1, 8))
    ]


def fits(job: Job, nodes: list[NodeSpec]) -> bool:
    """Whether a job fits on the empty cluster."""
    left = [dict(node.capacity) for node in nodes]
    for part in job.parts:
        ask = dict(part.shape.request)
        for _ in range(part.count):
            home = next((n for n in left if all(n.get(r, 0) >= x for r, x in ask.items())), None)
            if home is None:
                return False
            for r, x in ask.items():
                home[r] -= x
    return True


def jobs(draw: random.Random, nodes: list[NodeSpec], queues: list[QueueSpec]) -> list[Job]:
    """Draw up to 32 gangs, few enough that all get promises. None asks for more than the cluster
    has.
    """
    arrives = draw.choice((0, 0, 200))
    priorities = (0, 0, 1) if not arrives else (0,)
    out = []
    for i in range(draw.randint(5, 32)):
        gpus = draw.choice((0, 0, 1, 2, 4, 8))
        request = (("cpu", float(draw.choice((1, 2, 4)))), (GPU, float(gpus)))
        shape = Shape(request=tuple((r, x) for r, x in request if x))
        size = draw.choice((1, 1, 2, 3, 4, 8))
        job = Job(
            name=f"j{i:02d}",
            submit_s=float(draw.randint(0, arrives)),
            work_s=float(draw.choice((draw.randint(1, 60), draw.randint(1, 3_000)))),
            parts=(Part(shape=shape, count=size),),
            queue=draw.choice(queues).name,
            priority=draw.choice(priorities),
        )
        limits = next(queue.capability for queue in queues if queue.name == job.queue)
        if fits(job, nodes) and all(job.amount(r) <= limit for r, limit in limits):
            out.append(job)
    return out


def queues(draw: random.Random) -> list[QueueSpec]:
    """Draw one to three queues, some with a limit."""
    return [
        QueueSpec(
            name=f"q{i}",
            weight=draw.randint(1, 3),
            capability=draw.choice(((), (), ((GPU, 8.0), ("cpu", 64.0), ("memory", 1e17)))),
        )
        for i in range(draw.randint(1, 3))
    ]


def simulated(
    seed: int, planner: Any, config: Callable[[], Configuration] = keeping
) -> tuple[Result, list[Job]]:
    draw = random.Random(seed)
    nodes, qs = machines(draw), queues(draw)
    work = jobs(draw, nodes, qs)
    result = simulate(
        work,
        nodes,
        config=config(),
        queues=qs,
        rules=Rules(period_s=0.0),
        shells={PLANNER: planner},
    )
    return result, work


def drawn_snapshot(draw: random.Random, now: float = 0.0) -> Snapshot:
    """Draw a cluster in which some gangs run and others wait. Some declare no run time, and some
    have exceeded theirs. No action places anything.
    """
    nodes, qs = machines(draw), queues(draw)
    groups: list[PodGroupSpec] = []
    tasks: list[TaskSpec] = []
    left = {node.name: dict(node.capacity) for node in nodes}
    for job in jobs(draw, nodes, qs):
        shape, count = job.parts[0].shape, job.parts[0].count
        ask = dict(shape.request)
        homes = []
        for _ in range(count if draw.random() < 0.5 else 0):
            home = next((n for n, has in left.items() if _has(has, ask)), None)
            if home is not None:
                homes.append(home)
                for r, x in ask.items():
                    left[home][r] -= x
        runs = len(homes) == count
        for home in () if runs else homes:
            for r, x in ask.items():
                left[home][r] += x
        groups.append(
            PodGroupSpec(
                name=job.name,
                queue=job.queue,
                min_member=draw.randint(1, count),
                priority=job.priority,
                phase="Running" if runs else "Inqueue",
                created=job.submit_s,
                run_time_s=None if draw.random() < 0.1 else job.work_s,
                started=now - draw.choice((0.0, 10.5, 100.0)) if runs else None,
            )
        )
        tasks += [
            TaskSpec(
                name=f"{job.name}-{k}",
                podgroup=job.name,
                shape=shape,
                node=homes[k] if runs else "",
                phase="Running" if runs else "Pending",
            )
            for k in range(count)
        ]
    return Snapshot(
        config=keeping(KEEPING.replace("allocate", "backfill")),
        nodes=tuple(nodes),
        queues=tuple(qs),
        podgroups=tuple(groups),
        tasks=tuple(tasks),
        now=now,
    )


def _has(left: dict[str, float], ask: dict[str, float]) -> bool:
    return all(left.get(r, 0) >= x for r, x in ask.items())
