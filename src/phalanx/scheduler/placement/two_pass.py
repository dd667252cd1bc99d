"""The oldest policy, which can still be chosen: a random node with room or, without one, a random
feasible node.
"""

from __future__ import annotations

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.affinity import random_flagged
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed, reject


class TwoPassRandom:
    """Picks a random node whose available amounts, minus the queued ones, are enough. If there is
    none, picks a random feasible node.

    Several processes decide without knowing of each other. If they compared nodes by outdated
    reports, all of them would send their requests to the same node at the same time. Random choices
    avoid this.
    """

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Pick a node by the rules of this strategy. The caller adds the request to the node's
        load.
        """
        excluded = excluded_rows(view, asking)
        row = random_flagged(self._unloaded(view, request), excluded, rng)
        if row is not None:
            return placed(view, row, True)
        if not asking.require_available:
            row = random_flagged(view.of(request).feasible, excluded, rng)
            if row is not None:
                return placed(view, row, False)
        return reject(view, request, asking)

    def _unloaded(self, view: ClusterView, request: Request) -> Flags:
        nodes = view.nodes
        flags = view.of(request).available.copy()
        for name, units in request.resources.items():
            free = nodes.column(nodes.available, name) - nodes.column(nodes.load, name)
            flags &= free >= units
        return flags
