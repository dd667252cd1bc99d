"""The strategy DEFAULT: fills nodes up to a threshold, then spreads work. One of the best nodes is
taken at random.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.request_class import ClusterView, Ranking, Request
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed, reject


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """The strategy that orders nodes by their current utilization, then by their ids.

    Available nodes come before nodes that are feasible but busy. The preferred node is taken if no
    node has a better score. `spread_threshold`: a node whose utilization is below this fraction
    counts as unused. `top_k_absolute` and `top_k_fraction` (of all nodes): one of this many best
    nodes is taken at random; the larger of the two numbers counts. `avoid_gpu_nodes`: whether work
    that requests no GPU goes to a node with GPUs only if no other node is free. `weighs_local`:
    whether the local node is treated like all others (see `pick_node`).
    """

    spread_threshold: float = 0.5
    top_k_absolute: int = 1
    top_k_fraction: float = 0.2
    avoid_gpu_nodes: bool = True
    weighs_local: bool = False

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Pick a node by the rules of this strategy. A local node that should be avoided is not
        preferred.
        """
        groups = ["available"]
        if self.avoid_gpu_nodes and not request.resources.get("GPU", 0):
            groups.insert(0, "plain")
        if not asking.require_available:
            groups.append("busy")
        known = view.of(request)
        for group in groups:
            ranking = known.ranking(group, self.spread_threshold)
            row = self._pick_row(view, ranking, asking, rng)
            if row is not None:
                return placed(view, row, group != "busy")
        return reject(view, request, asking)

    def _pick_row(
        self, view: ClusterView, ranking: Ranking, asking: Asking, rng: RandomSource
    ) -> int | None:
        order = ranking.order
        excluded = excluded_rows(view, asking)
        passed_over = ranking.place_of(excluded[0]) if excluded else None
        count = len(order) - (passed_over is not None)
        if count <= 0:
            return None
        best = order[1 if passed_over == 0 else 0]
        preferred = view.nodes.row_of.get(asking.preferred or "")
        if preferred is not None and preferred not in excluded:
            score = ranking.score_of(preferred)
            if score is not None and score <= best[0]:
                return preferred
        top = max(self.top_k_absolute, int(len(view.nodes) * self.top_k_fraction))
        at = rng.randrange(min(top, count)) if min(top, count) > 1 else 0
        if passed_over is not None and at >= passed_over:
            at += 1
        return order[at][1]
