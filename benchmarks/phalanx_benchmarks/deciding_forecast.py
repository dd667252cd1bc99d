"""The time that a plan takes on clusters of several sizes. `run(clock)` returns a row for each
measurement. The caller passes `clock`, in seconds. Sizes and lengths are computed, and not random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import decide
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
from phalanx.scheduler.forecast.expected import PROMISED
from phalanx.scheduler.forecast.planner import Planner

Clock = Callable[[], float]
Row = dict[str, Any]

SIZES = ((10, 500), (100, 5_000))
"""Pairs of the number of nodes with eight GPUs and the number of waiting gangs."""
GPU = "nvidia.com/gpu"
QUEUES = 8
NOW = 1_000_000.0
_CONFIG = """\
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: capacity
{keeping}- plugins:
  - name: predicates
  - name: binpack
"""
_KEEPING = "  - name: reservation\n"


def run(clock: Clock, sizes: Sequence[tuple[int, int]] = SIZES) -> list[Row]:
    """Measure plans and cycles for each size.

    The rows are a whole plan, the promises of a first and of a second cycle, and whole cycles with
    and without promises. `count` is the number of planned or started gangs.
    """
    return [row for nodes, gangs in sizes for row in _rows(clock, nodes, gangs)]


def _rows(clock: Clock, nodes: int, gangs: int) -> list[Row]:
    session = _opened(backlog(nodes, gangs))
    planner = Planner()
    without = backlog(nodes, gangs, actions="allocate")
    keeping = backlog(nodes, gangs, actions="allocate", keeps=True)
    measured: dict[str, Callable[[], int]] = {
        "whole plan": lambda: len(planner.plan(session).starts),
        "promises of a first cycle": lambda: _promised(planner, session),
        "promises of the next cycle": lambda: _promised(planner, session),
        "cycle without promises": lambda: _cycle(without, None),
        "cycle that keeps promises": lambda: _cycle(keeping, planner),
    }
    rows = []
    for name, work in measured.items():
        start = clock()
        count = work()
        took = clock() - start
        row = {"measure": name, "nodes": nodes, "gangs": gangs, "seconds": took, "count": count}
        rows.append(row)
    return rows


def _promised(planner: Planner, session: Session) -> int:
    return len(planner.promises(session, PROMISED, 1).places)


def _cycle(snapshot: Snapshot, planner: Planner | None) -> int:
    shells = {} if planner is None else {"planner": planner}
    return len(decide(snapshot, shells=shells, explains=False)[1].binds)


def _opened(snapshot: Snapshot) -> Session:
    """Return a session in which nothing is decided yet."""
    return decide(snapshot, explains=False)[0]


def backlog(nodes: int, gangs: int, *, actions: str = "backfill", keeps: bool = False) -> Snapshot:
    """Return a nearly full cluster with its backlog: gangs of 1 to 64 GPUs, with run times from a
    minute to two days, wait for the few free GPUs.
    """
    config = parse_volcano(
        _CONFIG.format(actions=actions, keeping=_KEEPING if keeps else ""), known_plugins()
    )
    machines = tuple(
        NodeSpec(
            name=f"node-{i:04d}",
            capacity=(("cpu", 128.0), ("memory", 1e12), ("pods", 110.0), (GPU, 8.0)),
        )
        for i in range(nodes)
    )
    shapes = [
        Shape(request=(("cpu", 4.0 * gpus), ("memory", 32e9 * gpus), (GPU, float(gpus))))
        for gpus in (1, 2, 4, 8)
    ]
    groups, tasks = [], []
    for i in range(nodes):
        for k, shape in enumerate((shapes[2], shapes[1], shapes[0])):  # 7 of 8 GPUs
            name = f"run-{i:04d}-{k}"
            started = NOW - i * 37.0 - k * 91.0
            groups.append(
                PodGroupSpec(
                    name=name,
                    queue=f"q{i % QUEUES}",
                    min_member=1,
                    phase="Running",
                    run_time_s=_length(i * 3 + k) + NOW - started,
                    started=started,
                )
            )
            tasks.append(
                TaskSpec(
                    name=f"{name}-0",
                    podgroup=name,
                    shape=shape,
                    node=machines[i].name,
                    phase="Running",
                )
            )
    for i in range(gangs):
        name = f"wait-{i:05d}"
        size = (1, 1, 1, 2, 1, 4, 1, 8)[i % 8]
        groups.append(
            PodGroupSpec(
                name=name,
                queue=f"q{i % QUEUES}",
                min_member=size,
                phase="Inqueue",
                priority=i % 3,
                created=NOW - 100_000.0 + i,
                run_time_s=_length(i),
            )
        )
        shape = shapes[(i // 8) % 4]
        tasks += [TaskSpec(name=f"{name}-{k}", podgroup=name, shape=shape) for k in range(size)]
    return Snapshot(
        config=config,
        nodes=machines,
        queues=tuple(QueueSpec(name=f"q{i}", weight=1 + i % 3) for i in range(QUEUES)),
        podgroups=tuple(groups),
        tasks=tuple(tasks),
        now=NOW,
    )


def _length(i: int) -> float:
    """Return the seconds of a typical time limit, from a minute to two days."""
    return (60.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 14_400.0, 43_200.0, 86_400.0, 172_800.0)[
        i * 7 % 9
    ]
