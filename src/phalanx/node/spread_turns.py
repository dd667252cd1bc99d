"""The strategy SPREAD for one demand: the nodes take turns, and a node keeps its turns from one
plan to the next.

Each plan makes all requests again. Without kept turns, a node that starts workers fast would get a
new turn in each plan, and the tasks would gather there while slower nodes still start their
workers.
"""

from __future__ import annotations

from collections.abc import Mapping

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.outcome import Outcome, Placed
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.spread import Spread
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed


class SpreadTurns:
    """The turns that plans have given to nodes for one demand: a turn is one requested worker."""

    def __init__(self) -> None:
        self._spread = Spread()
        self._kept: dict[str, int] = {}
        self._given: dict[str, int] = {}

    def begin(self, missing: Mapping[str, int]) -> None:
        """Begin a plan. `missing`: how many requested workers each node has not granted yet."""
        self._kept = {node: min(n, missing.get(node, 0)) for node, n in self._given.items()}
        self._given = {}

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Choose a node for one worker. A node that keeps a turn and has room comes first; without
        one, the next node in turn is chosen.
        """
        node = self._keeper(view, request, asking)
        if node is not None:
            self._kept[node] -= 1
            outcome: Outcome = placed(view, view.nodes.row_of[node], is_available=True)
        else:
            outcome = self._spread.pick(view, request, asking, rng)
        if isinstance(outcome, Placed):
            self._given[outcome.node] = self._given.get(outcome.node, 0) + 1
        return outcome

    def _keeper(self, view: ClusterView, request: Request, asking: Asking) -> str | None:
        """Return the node that has got the fewest turns in this plan, among the nodes that keep
        turns and have room for the request.
        """
        row_of, available = view.nodes.row_of, view.of(request).available
        excluded = excluded_rows(view, asking)
        keepers = [
            node
            for node, turns in self._kept.items()
            if turns > 0
            and (row := row_of.get(node)) is not None
            and available[row]
            and row not in excluded
        ]
        return min(keepers, key=lambda node: self._given.get(node, 0), default=None)
