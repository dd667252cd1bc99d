"""The oldest policy, which can still be chosen: any node with room or, if there is none, any
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
    """Picks at random among nodes whose available minus queued amounts are enough or, if there are
    none, among feasible nodes.

    Random choices need no agreement among the deciding processes. If they weighed nodes by outdated
    reports, all of them would send their requests to the same node at once.
    """

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Pick a node by the rules of this strategy. The caller adds the request to that node's
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
