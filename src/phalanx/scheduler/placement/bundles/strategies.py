"""The choice of nodes for bundles that belong together: PACK, SPREAD and their strict forms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.matching import match
from phalanx.scheduler.placement.bundles.request import (
    BundleRejection,
    BundleRequest,
    BundlesPlaced,
)
from phalanx.scheduler.placement.bundles.room import (
    Room,
    Rows,
    Scores,
    leftover,
    leftover_of,
    stuffed,
)
from phalanx.scheduler.placement.labels import ANY_NODE
from phalanx.scheduler.placement.node_table import Flags, NodeState
from phalanx.scheduler.placement.outcome import Reason
from phalanx.scheduler.placement.request_class import ClusterView, Request, RequestClass

BundleOutcome = BundlesPlaced | BundleRejection

_AFTER_OTHERS = 1e6
"""A number that is added to the scores of nodes with GPUs, so that they come after all other nodes.
All scores are far below it.
"""


def place(view: ClusterView, asked: BundleRequest, within: Flags | None = None) -> BundleOutcome:
    """Return a node for every bundle, or the reason why not all of them have one.

    `within`: a mask of the nodes that may be chosen; without a mask, all may be chosen. Nothing is
    reserved.
    """
    if (only := _only_one(view, asked, within)) is not None:
        return only
    among = within if within is not None else np.ones(len(view.nodes), np.bool_)
    choice = _Choice(view, asked, among)
    if asked.strategy == "STRICT_PACK":
        return choice.strict_pack()
    for bundle in choice.order:
        if not (choice.known(bundle).feasible & among).any():
            return choice.no("infeasible", bundle)
    if asked.strategy == "PACK":
        return choice.pack()
    if asked.strategy == "SPREAD":
        return choice.spread()
    return choice.strict_spread()


def _only_one(
    view: ClusterView, asked: BundleRequest, within: Flags | None
) -> BundlesPlaced | None:
    """If the group has a single bundle and only one node has room for it, return that node, because
    the strategy then makes no difference. Otherwise return None.
    """
    if len(asked.bundles) > 1 or asked.occupied or asked.strategy == "STRICT_PACK":
        return None
    available = view.of(_request(asked, 0)).available
    rows = np.flatnonzero(available if within is None else available & within)
    return BundlesPlaced(nodes=(view.nodes.states[rows[0]].id,)) if rows.size == 1 else None


def _request(asked: BundleRequest, bundle: int) -> Request:
    return Request(
        resources=asked.bundles[bundle],
        selector=asked.selector(bundle),
        exact_devices=asked.scheduler_compat != "ray",
    )


class _Choice:
    """The placement of one group. The room on nodes shrinks while bundles are placed."""

    def __init__(self, view: ClusterView, asked: BundleRequest, among: Flags) -> None:
        self.order = asked.hardest_first()
        self._view = view
        self._asked = asked
        self._like_ray = asked.scheduler_compat == "ray"
        self._unused = among.copy()
        self._found: dict[int, str] = {}
        """The chosen nodes' ids, by the bundle's index."""

    def known(self, bundle: int) -> RequestClass:
        """Return the known facts about all nodes for a request like the bundle's."""
        return self._view.of(self._request(bundle))

    def no(self, reason: Reason, bundle: int | None = None, detail: str = "") -> BundleRejection:
        """Return a rejection: of the bundle with this index, or of the whole group if it is None.
        The rejection has the number of nodes that each filter turned away.
        """
        about = self._summed() if bundle is None else self._request(bundle)
        turned_away = self._view.of(about).rejection({}).turned_away
        return BundleRejection(reason=reason, bundle=bundle, turned_away=turned_away, detail=detail)

    def strict_pack(self) -> BundleOutcome:
        """Put all bundles on one node: the soft target if possible, otherwise the best node."""
        summed = self._summed()
        known = self._view.of(summed)
        rows = np.flatnonzero(known.available & self._unused)
        scores = self._scores(summed.resources, rows, emptiest=self._like_ray)
        target = self._view.nodes.row_of.get(self._asked.soft_target or "", -1)
        scores[rows == target] = -np.inf
        for row in _best_first(rows, scores):
            if self._holds_all(self._view.nodes.states[row]):
                return self._done([row] * len(self.order))
        for row in np.flatnonzero(known.feasible & self._unused).tolist():
            node = self._view.nodes.states[row]
            if self._holds_all(replace(node, available=node.total, devices={})):
                return self.no("unavailable", detail="no one node has room for all bundles now")
        return self.no("infeasible", detail="no one node could hold all bundles")

    def pack(self) -> BundleOutcome:
        """Use as few nodes as possible: fill one node after another with the bundles that still
        fit.
        """
        left = list(self.order)
        while left:
            row = self._emptiest(left[0]) if self._like_ray else self._takes_most(left)
            if row is None:
                return self.no("unavailable", left[0], "the other bundles leave it no room")
            room = self._use(row)
            left = [bundle for bundle in left if not self._put(bundle, room)]
        return self._done_by_name()

    def spread(self) -> BundleOutcome:
        """Give each bundle a node of its own. If no unused node can take a bundle, use a node
        again.
        """
        rooms: list[Room] = []
        for bundle in self.order:
            own = self._on_emptiest(bundle)
            if own is not None:
                rooms.append(own)
                continue
            resources = self._asked.bundles[bundle]
            ranked = sorted(
                rooms, key=lambda room: (-leftover_of(room.available, resources), room.node.id)
            )
            if not any(self._put(bundle, room) for room in ranked):
                return self.no("unavailable", bundle, "the other bundles leave it no room")
        return self._done_by_name()

    def strict_spread(self) -> BundleOutcome:
        """Give each bundle a node of its own, which may not be one of the nodes of bundles that are
        already placed.
        """
        nodes = self._view.nodes
        for occupied in sorted(self._asked.occupied):
            if occupied in nodes.row_of:
                self._unused[nodes.row_of[occupied]] = False
        free_nodes = int((self._unused & nodes.is_schedulable).sum())
        if free_nodes < len(self.order):
            return self.no(
                "infeasible", detail=f"{len(self.order)} bundles on {free_nodes} nodes of their own"
            )
        among = self._unused.copy()
        for bundle in self.order:
            if self._on_emptiest(bundle) is None:
                return self._matched(among, bundle)
        return self._done_by_name()

    def _matched(self, among: Flags, failed: int) -> BundleOutcome:
        """Search for a placement that the greedy search missed, in which some bundles leave their
        best nodes to other bundles.
        """
        rows = {
            bundle: np.flatnonzero(self.known(bundle).available & among).tolist()
            for bundle in self.order
        }
        found = None if self._like_ray else match(rows)
        if found is None:
            return self.no("unavailable", failed, "too few nodes of their own are free now")
        return self._done([found[bundle] for bundle in range(len(self.order))])

    def _request(self, bundle: int) -> Request:
        return _request(self._asked, bundle)

    def _summed(self) -> Request:
        selector = ANY_NODE
        for bundle in range(len(self.order)):
            selector = selector & self._asked.selector(bundle)
        # Shares of several bundles may add up to more than one device, so only sums are compared.
        return Request(resources=self._asked.summed(), selector=selector, exact_devices=False)

    def _scores(self, resources: ResourceSet, rows: Rows, *, emptiest: bool) -> Scores:
        """Return a score for each row; lower is better. With `emptiest`, the nodes with the most
        left have the lowest scores; otherwise those with the least left.
        """
        scores = leftover(self._view, resources, rows)
        return -scores if emptiest else scores + self._gpu_nodes_last(resources, rows)

    def _gpu_nodes_last(self, resources: ResourceSet, rows: Rows) -> Scores:
        if resources.get("GPU", 0):
            return np.zeros(rows.size)
        nodes = self._view.nodes
        return np.where(nodes.column(nodes.total, "GPU")[rows] > 0, _AFTER_OTHERS, 0.0)

    def _emptiest(self, bundle: int) -> int | None:
        rows = np.flatnonzero(self.known(bundle).available & self._unused)
        scores = self._scores(self._asked.bundles[bundle], rows, emptiest=True)
        return int(rows[scores.argmin()]) if rows.size else None

    def _on_emptiest(self, bundle: int) -> Room | None:
        """Put the bundle on the emptiest unused node that can take it.

        The emptiest node may turn the bundle away although one of its devices has room. This
        happens if another device is overdrawn, because the sum over the node's devices must
        suffice, too.
        """
        full: list[int] = []
        own = None
        while own is None and (row := self._emptiest(bundle)) is not None:
            room = self._use(row)
            if self._put(bundle, room):
                own = room
            else:
                full.append(row)
        self._unused[full] = True
        return own

    def _takes_most(self, left: list[int]) -> int | None:
        """Return the node that takes the most of the remaining bundles. If several nodes take the
        same number, return the node that has least left afterwards.
        """
        requests = [self._request(bundle) for bundle in left]
        rows = np.flatnonzero(self._unused)
        counts, parts = stuffed(self._view, requests, rows)
        most = int(counts.max(initial=0))
        if not most:
            return None
        kept = counts == most
        parts = parts + self._gpu_nodes_last(self._asked.summed(), rows)
        return int(rows[kept][parts[kept].argmin()])

    def _use(self, row: int) -> Room:
        self._unused[row] = False
        return self._room(self._view.nodes.states[row])

    def _room(self, node: NodeState) -> Room:
        return Room(node, self._view.nodes.numbered, exact_devices=not self._like_ray)

    def _put(self, bundle: int, room: Room) -> bool:
        if not self._asked.selector(bundle).holds(room.node.labels):
            return False
        if not room.add(self._asked.bundles[bundle]):
            return False
        self._found[bundle] = room.node.id
        return True

    def _holds_all(self, node: NodeState) -> bool:
        room = self._room(node)
        return all(room.add(self._asked.bundles[bundle]) for bundle in self.order)

    def _done(self, rows: list[int]) -> BundlesPlaced:
        return BundlesPlaced(nodes=tuple(self._view.nodes.states[row].id for row in rows))

    def _done_by_name(self) -> BundlesPlaced:
        return BundlesPlaced(nodes=tuple(self._found[at] for at in range(len(self.order))))


def _best_first(rows: Rows, scores: Scores) -> Iterator[int]:
    """Yield rows by ascending score; among equals, the lower row comes first. Rows are sorted only
    as far as the caller reads them.
    """
    scores = scores.copy()
    for _ in range(rows.size):
        at = int(scores.argmin())
        scores[at] = np.inf
        yield int(rows[at])
