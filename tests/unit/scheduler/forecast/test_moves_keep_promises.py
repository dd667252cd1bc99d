"""Work that is moved so that other work can start delays no start that a plan has promised."""

from __future__ import annotations

import random

import pytest
from tests.unit.scheduler.forecast.drawn import KEEPING, Listened, keeping

from phalanx.scheduler.cycle.specs import NodeSpec, Shape
from phalanx.scheduler.plugins.reservation import PLANNER
from phalanx_research.timed import Job, Part, Result, Rules, machine, simulate
from phalanx_research.timed.workload import GPU

MOVING = (
    KEEPING.replace("allocate", "allocate, consolidate").replace("binpack", "nodeorder")
    + """\
configurations:
- name: consolidate
  arguments: {settle: 1s, after: 1s, mostLost: 1h}
"""
)
QUICK, ALL, EACH = 20, 200, 10


def scattered(draw: random.Random) -> tuple[list[NodeSpec], list[Job]]:
    """Draw some machines, small long jobs that are placed anywhere, and large short jobs."""
    nodes = [
        machine(f"n{i}", cpu=64, gpus=draw.choice((2, 2, 4))) for i in range(draw.randint(2, 5))
    ]
    work = []
    for i in range(draw.randint(8, 24)):
        is_large = draw.random() < 0.3
        gpus = draw.choice((2.0, 2.0, 4.0)) if is_large else draw.choice((0.5, 0.5, 1.0))
        if is_large and gpus > max(dict(node.capacity)[GPU] for node in nodes):
            continue
        job = Job(
            name=f"j{i:02d}",
            submit_s=float(draw.randint(100, 900) if is_large else draw.randint(0, 600)),
            work_s=float(draw.randint(5, 100) if is_large else draw.randint(100, 3_000)),
            parts=(Part(shape=Shape(request=(("cpu", 1.0), (GPU, gpus)))),),
            annotations=(("phalanx/movable", "1s"),) if draw.random() < 0.8 else (),
        )
        work.append(job)
    return nodes, work


def simulated(seed: int, planner: Listened) -> tuple[Result, list[Job]]:
    nodes, work = scattered(random.Random(seed))
    result = simulate(
        work,
        nodes,
        config=keeping(MOVING),
        rules=Rules(period_s=0.0),
        shells={PLANNER: planner},
    )
    return result, work


def moves_of(first: int) -> int:
    """Simulate some clusters; return how often work moved."""
    moves = 0
    for seed in range(first, first + EACH):
        listened = Listened()
        result, _ = simulated(seed, listened)
        started = {f"default/{job.name}": job.start_s for job in result.jobs}
        assert None not in started.values(), f"seed {seed}: all that fits starts"
        for plan in listened.plans:
            for one in plan.starts:
                at_s = started[one.podgroup]
                assert at_s is not None
                if at_s >= plan.now:  # else it moves, and was promised its first start
                    assert at_s <= one.at_s, f"seed {seed}: {one.podgroup} at {plan.now}"
        for job in result.jobs:
            assert job.finish_s is not None
            moves += job.preemptions
    return moves


@pytest.mark.parametrize("first", range(0, QUICK, EACH))
def test_no_move_delays_a_promised_start(first: int) -> None:
    moves_of(first)


@pytest.mark.slow
def test_no_move_delays_a_promised_start_on_more_clusters() -> None:
    assert sum(moves_of(first) for first in range(QUICK, ALL, EACH))
