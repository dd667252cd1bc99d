"""A run of one policy over one workload, with measurements after each arrival."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.placement.fragmentation.catalogue import maker_of
from phalanx.scheduler.placement.fragmentation.measure import Fragmentation
from phalanx.scheduler.placement.fragmentation.mix import typical_mix
from phalanx.scheduler.placement.fragmentation.nodes import Floats, Ints
from phalanx.scheduler.placement.fragmentation.placer import Placer
from phalanx_research.arrival.workload import Workload
from phalanx_research.timed import WorkloadError

PROGRESS_EVERY = 256
"""The number of arrivals between two reports of progress."""


@dataclass(frozen=True, kw_only=True)
class ArrivalRun:
    """The result of a run. All percentages are of the cluster's GPUs. The curves have one value for
    each whole percentage of GPUs requested so far (`arrived_pct`): the mean over the moments at
    which the percentage rounds to it. `gpu_left` is an (N, G) array with what is left of each GPU
    at the end, in the order of `node_names` and `node_models`; -1 if a node has no such GPU.
    """

    policy: str
    seed: int
    pods: int
    failed_pods: int
    elapsed_s: float
    arrived_pct: Ints
    alloc_pct: Floats
    frag_pct: Floats
    gpu_left: Ints
    node_names: tuple[str, ...]
    node_models: tuple[str, ...]

    @property
    def placements_per_s(self) -> float:
        """The number of decisions per second, including decisions about pods that found no room."""
        return self.pods / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def at(self, curve: Floats, arrived_pct: int) -> float | None:
        """Return a curve's value at a percentage; None if the run skipped the percentage or ended
        before it.
        """
        found = np.flatnonzero(self.arrived_pct == arrived_pct)
        return float(curve[found[0]]) if len(found) else None

    def figures(self) -> dict[str, float | int | None]:
        """Return the figures of the published table by their usual names, the number of failures,
        and the speed.
        """

        def rounded(value: float | None) -> float | None:
            return None if value is None else round(value, 3)

        return {
            "alloc_pct_at_arrived_100": rounded(self.at(self.alloc_pct, 100)),
            "alloc_pct_at_arrived_130": rounded(self.at(self.alloc_pct, 130)),
            "frag_pct_capacity_at_50": rounded(self.at(self.frag_pct, 50)),
            "frag_pct_capacity_at_100": rounded(self.at(self.frag_pct, 100)),
            "failed_pods": self.failed_pods,
            "placements_per_s": round(self.placements_per_s, 1),
        }


def run_arrivals(
    workload: Workload,
    policy: str,
    *,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ArrivalRun:
    """Place the pods of `workload` in order of arrival. A pod without room is dropped. `seed`, from
    which the workload was drawn, is only recorded. `progress` gets the number of pods that have
    arrived, and the number of all pods. Raises UnknownPolicyError, and WorkloadError for nodes
    without GPUs.
    """
    nodes = workload.fresh_nodes()
    capacity = nodes.capacity_milli
    if not capacity:
        raise WorkloadError("the nodes have no GPU; the arrival experiment measures GPUs")
    made = maker_of(policy)(nodes, workload.past, workload.draws)
    placer = Placer(nodes, made)
    measure = Fragmentation(nodes, typical_mix(workload.past))
    lost = measure.now(np.arange(len(nodes), dtype=np.intp))
    lost_sum = float(lost.sum())
    arrived = allocated = failed = 0
    sums: dict[int, list[float]] = {}
    deciding_s = 0.0
    for number, shape in enumerate(workload.arrivals):
        arrived += shape.milli
        began = time.perf_counter()
        choice = placer.place(shape)
        deciding_s += time.perf_counter() - began
        if choice is None:
            failed += 1
        else:
            allocated += shape.milli
            row = choice[0]
            now = float(measure.now(np.array([row], dtype=np.intp))[0])
            lost_sum += now - lost[row]
            lost[row] = now
        bin_sums = sums.setdefault(round(100 * arrived / capacity), [0, 0.0, 0.0])
        bin_sums[0] += 1
        bin_sums[1] += 100 * allocated / capacity
        bin_sums[2] += 100 * lost_sum / capacity
        if number % PROGRESS_EVERY == 0:
            progress(number, len(workload.arrivals))
    progress(len(workload.arrivals), len(workload.arrivals))
    bins = sorted(sums)
    return ArrivalRun(
        policy=made.name,
        seed=seed,
        pods=len(workload.arrivals),
        failed_pods=failed,
        elapsed_s=deciding_s,
        arrived_pct=np.array(bins, dtype=np.int64),
        alloc_pct=np.array([sums[b][1] / sums[b][0] for b in bins]),
        frag_pct=np.array([sums[b][2] / sums[b][0] for b in bins]),
        gpu_left=np.where(
            np.arange(nodes.gpu_left.shape[1]) < nodes.gpus[:, None], nodes.gpu_left, -1
        ),
        node_names=tuple(n.name for n in workload.nodes),
        node_models=tuple(n.model for n in workload.nodes),
    )
