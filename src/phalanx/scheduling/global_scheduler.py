"""The global scheduler: of the nodes that satisfy a demand, the one where it would wait least.

Nodes ask it for what they cannot run, or have too much of. Its state is a copy of the control
store's rows, so as many as are needed run side by side. They do not agree on anything: each
counts what it sent as waiting there until the node's next report, and the node that is chosen
decides.

The wait is estimated as queue length × mean run time + missing bytes ÷ bandwidth, with
exponential averages (Moritz et al., "Ray: A Distributed Framework for Emerging AI Applications",
OSDI 2018, section 4.2.2).
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.policies.outcome import Outcome, Placed
from phalanx.policies.request_class import Request
from phalanx.policies.seeded import Seeded
from phalanx.policies.strategy import NOBODY, Asking
from phalanx.scheduling.cluster_nodes import ClusterNodes


class GlobalScheduler:
    """Picks nodes over one copy of the cluster's rows."""

    def __init__(self, cluster: ClusterNodes) -> None:
        self._cluster = cluster
        self._rng = Seeded(0)  # the strategy is handed one and draws nothing

    def pick(self, request: Request, asking: Asking = NOBODY) -> Outcome:
        """The node, or what each filter turned away.

        Of nodes with the same wait, one that has room now. What is sent there is to be counted
        with `ClusterNodes.count_in`.
        """
        best = self._pick(request, asking)
        if not isinstance(best, Placed) or best.is_available:
            return best
        free = self._pick(request, replace(asking, require_available=True))
        if isinstance(free, Placed) and self._wait_s(free, asking) <= self._wait_s(best, asking):
            return free
        return best

    def _pick(self, request: Request, asking: Asking) -> Outcome:
        cluster = self._cluster
        return cluster.waiting.pick(cluster.view, request, asking, self._rng)

    def _wait_s(self, placed: Placed, asking: Asking) -> float:
        return self._cluster.waiting.estimate_s(placed.node, asking)
