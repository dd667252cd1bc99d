"""An upper bound on the GPUs in use, for a scheduler that knows all arrivals beforehand.

The bound is the optimum of a linear program. It lets units run in parts, stop and go on at no cost,
and use parts of different nodes, so no real schedule uses more GPU time until the last arrival. It
keeps these limits of the real cluster:

- A unit runs between its arrival and the last arrival, for its run time at most. No member runs
  twice at the same time.
- All running units together hold at most the cores, the memory and the GPUs of all nodes.
- Units that may use only some GPU models hold at most the GPUs of these models.
- Members that need several GPUs of one node run only where the nodes have room for each of them.
- At most one pod of more than half a GPU runs on a GPU.

Time is divided into equal steps. A unit counts in a step for the part of the step after its
arrival.

The program ignores that a unit, once started, holds one place until its end, and how units share
nodes and GPUs beyond these limits. So the best real schedule is below the bound, and a policy's
distance from the bound overstates what a better policy could gain.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phalanx.scheduler.placement.fragmentation.shape import WHOLE
from phalanx_research.departures.workload import Replay, Unit

STEPS = 30
"""The number of steps into which the time until the last arrival is divided."""


def bound_pct(replay: Replay, steps: int = STEPS) -> float:
    """Return the bound on the mean percentage of the GPUs that is in use until the last arrival."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    step_s = replay.end_s / steps
    units = [u for u in replay.units if u.runs_s > 0 and u.at_s < replay.end_s]
    first = np.array([min(int(u.at_s / step_s), steps - 1) for u in units])
    counts = steps - first
    of_unit = np.repeat(np.arange(len(units)), counts)
    starts = np.cumsum(counts) - counts
    step = np.arange(int(counts.sum())) - np.repeat(starts, counts) + np.repeat(first, counts)
    at_s = np.array([u.at_s for u in units])
    runs_s = np.array([u.runs_s for u in units])
    milli = np.array([float(u.milli) for u in units])
    most_s = np.minimum((step + 1) * step_s - at_s[of_unit], step_s)
    rows: list[np.ndarray] = [of_unit]
    columns: list[np.ndarray] = [np.arange(len(of_unit))]
    values: list[np.ndarray] = [np.ones(len(of_unit))]
    limits: list[float] = np.minimum(runs_s, replay.end_s - at_s).tolist()
    for load, limit in _limits(replay, units):
        of_limit = load[of_unit]
        some = np.flatnonzero(of_limit)
        rows.append(len(limits) + step[some])
        columns.append(some)
        values.append(of_limit[some])
        limits += [limit * step_s] * steps
    matrix = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(limits), len(of_unit)),
    ).tocsr()
    found = linprog(
        -milli[of_unit],
        A_ub=matrix,
        b_ub=np.array(limits),
        bounds=np.column_stack((np.zeros(len(of_unit)), most_s)),
        method="highs-ipm",
    )
    if not found.success:
        raise ArithmeticError(f"the linear program was not solved: {found.message}")
    return float(100 * -found.fun / (replay.capacity_milli * replay.end_s))


def _limits(replay: Replay, units: list[Unit]) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the limits that hold at every time, each as the units' loads and the largest sum."""
    nodes = replay.nodes
    members = np.array([float(u.members) for u in units])
    shapes = [u.shape for u in units]
    yield members * [s.cpu_milli for s in shapes], float(sum(n.cpu_milli for n in nodes))
    yield members * [s.memory_mib for s in shapes], float(sum(n.memory_mib for n in nodes))
    milli = members * [s.milli for s in shapes]
    yield milli, float(replay.capacity_milli)
    large = [s.num_gpu if s.gpu_milli > WHOLE // 2 else 0 for s in shapes]
    yield members * large, float(sum(n.gpus for n in nodes))
    for models in sorted({s.models for s in shapes if s.models}):
        inside = [bool(s.models) and set(s.models) <= set(models) for s in shapes]
        yield milli * inside, float(WHOLE * sum(n.gpus for n in nodes if n.model in models))
    for gpus in sorted({s.num_gpu for s in shapes if s.num_gpu > 1}):
        whole = [float(s.num_gpu >= gpus) for s in shapes]
        yield members * whole, float(sum(n.gpus // gpus for n in nodes))
