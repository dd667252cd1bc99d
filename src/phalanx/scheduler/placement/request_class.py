"""Facts about every node for one class of equal requests. Only changed nodes are computed again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phalanx.model.gpu_sharing import GPU, MEMORY, TIME
from phalanx.scheduler.devices.cards import CardAsk, card_ask
from phalanx.scheduler.devices.devices import check_whole
from phalanx.scheduler.devices.quantities import SCALE, from_units
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.labels import ANY_NODE, LabelSelector
from phalanx.scheduler.placement.node_table import Amounts, Flags, NodeTable
from phalanx.scheduler.placement.outcome import Filter, Reason, Rejection, TurnedAway


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request to one node: an amount of each resource, and the labels that the node must have.
    `exact_devices`: whether a share of a numbered device must fit one device. Otherwise only sums
    are compared, as in Ray, and a request may be sent to a node where it never starts.
    """

    resources: ResourceSet
    selector: LabelSelector = ANY_NODE
    exact_devices: bool = True


class Ranking:
    """Rows in the order of (score, row). Single rows can be added, removed or moved."""

    def __init__(self, scores: Sequence[float], rows: Sequence[int]) -> None:
        self._key_of = {row: (scores[row], row) for row in rows}
        self.order = sorted(self._key_of.values())

    def place(self, row: int, score: float | None) -> None:
        """Put `row` at the position of its score. The score None removes the row."""
        old = self._key_of.pop(row, None)
        if old is not None:
            del self.order[bisect_left(self.order, old)]
        if score is not None:
            key = self._key_of[row] = (score, row)
            insort(self.order, key)

    def score_of(self, row: int) -> float | None:
        """Return the score of `row`; None if the row is not ranked."""
        key = self._key_of.get(row)
        return key[0] if key is not None else None

    def place_of(self, row: int) -> int | None:
        """Return how many rows come before `row`; None if the row is not ranked."""
        key = self._key_of.get(row)
        return bisect_left(self.order, key) if key is not None else None


class RequestClass:
    """The facts about each node for one class of requests: whether it is feasible, and whether it
    is available now.
    """

    def __init__(self, nodes: NodeTable, request: Request) -> None:
        """Raises ValueError for a fractional number of devices above one."""
        if request.exact_devices:
            check_whole(request.resources, nodes.numbered)
        self.request = request
        self._nodes = nodes
        self._ask = _special_ask(request, nodes)
        """The cards that requests of the class need, if the columns of shares and whole devices
        cannot tell whether a node has them; otherwise None.
        """
        self._decides = MEMORY if self._ask is not None and self._ask.memory else GPU
        self._rankings: dict[tuple[str, float], Ranking] = {}
        self._build()

    def catch_up(self) -> None:
        """Compute again the rows that were touched since the last call."""
        if self._generation != self._nodes.generation:
            self._build()
            return
        touched = self._nodes.touched
        while self._seen < len(touched):
            self._redo(touched[self._seen])
            self._seen += 1

    def ranking(self, group: str, threshold: float) -> Ranking:
        """Return the rows of a group, ordered by utilization. A utilization below `threshold`
        counts as 0.

        Groups: `available`, `plain` (available and without GPUs), `busy` (feasible, not available).
        """
        found = self._rankings.get((group, threshold))
        if found is None:
            used = self._nodes.utilization
            scores = np.where(used < threshold, 0.0, used).tolist()
            rows = np.flatnonzero(self._members(group)).tolist()
            found = self._rankings[group, threshold] = Ranking(scores, rows)
        return found

    def rejection(self, turned_away_before: Mapping[Filter, Flags]) -> Rejection:
        """Return why no node was chosen. Each node counts for the first filter that turns it away.

        `turned_away_before`: the nodes that other filters turned away. These filters come after the
        filter `draining`, and before those for the labels and amounts of this class.
        """
        nodes = self._nodes
        left = nodes.is_schedulable.copy()
        turned_away: list[TurnedAway] = []
        _tell(turned_away, TurnedAway(filter="draining", nodes=int((~left).sum())))
        for filtered, away in turned_away_before.items():
            _tell(turned_away, TurnedAway(filter=filtered, nodes=int((left & away).sum())))
            left &= ~away
        _tell(turned_away, TurnedAway(filter="labels", nodes=int((left & ~self._labelled).sum())))
        left &= self._labelled
        for name, units in self.request.resources.items():
            has = self._has(name)
            _tell(turned_away, _short("total", name, units, has[left & (has < units)]))
            left &= has >= units
        reason: Reason = "unavailable" if left.any() else "infeasible"
        for name, units in self.request.resources.items():
            has = self._free(name, units)
            _tell(turned_away, _short("free", name, units, has[left & (has < units)]))
            left &= has >= units
        return Rejection(reason=reason, turned_away=tuple(turned_away))

    def has_room_beside(self, row: int, taken: ResourceSet) -> bool:
        """Whether a node still has room for the request after `taken` is subtracted."""
        return bool(self.available[row]) and all(
            int(self._free(name, units)[row]) - taken.get(name, 0) >= units
            for name, units in self.request.resources.items()
        )

    def _build(self) -> None:
        nodes, resources = self._nodes, self.request.resources
        self._rankings.clear()
        self._generation = nodes.generation
        self._seen = len(nodes.touched)
        holds = self.request.selector.holds
        if self.request.selector.conditions:
            self._labelled: Flags = np.array([holds(node.labels) for node in nodes.states], bool)
        else:
            self._labelled = np.ones(len(nodes), np.bool_)
        feasible = self._labelled & nodes.is_schedulable
        if self._ask is not None:
            states = nodes.states
            self._on_cards = np.array([n.most_on_cards(self._ask) for n in states], np.int64)
            self._of_cards = np.array([n.most_on_cards(self._ask, True) for n in states], np.int64)
        for name, units in resources.items():
            feasible &= self._has(name) >= units
        available = feasible.copy()
        for name, units in resources.items():
            available &= self._free(name, units) >= units
        self.feasible: Flags = feasible
        self.available: Flags = available

    def _redo(self, row: int) -> None:
        nodes, node = self._nodes, self._nodes.states[row]
        resources = self.request.resources
        labelled = self.request.selector.holds(node.labels)
        feasible = labelled and node.is_schedulable
        if self._ask is not None:
            self._on_cards[row] = node.most_on_cards(self._ask)
            self._of_cards[row] = node.most_on_cards(self._ask, True)
        for name, units in resources.items():
            feasible = feasible and units <= int(self._has(name)[row])
        fits = feasible
        for name, units in resources.items():
            fits = fits and units <= int(self._free(name, units)[row])
        self._labelled[row], self.feasible[row], self.available[row] = labelled, feasible, fits
        for (group, threshold), ranking in self._rankings.items():
            is_member = (
                feasible and not fits
                if group == "busy"
                else fits and (group == "available" or not node.total.get("GPU", 0))
            )
            used = float(nodes.utilization[row])
            ranking.place(row, (0.0 if used < threshold else used) if is_member else None)

    def _members(self, group: str) -> Flags:
        if group == "busy":
            return self.feasible & ~self.available
        if group == "available":
            return self.available
        without_gpus: Flags = self._nodes.column(self._nodes.total, "GPU") == 0
        return self.available & without_gpus

    def _has(self, name: str) -> Amounts:
        """Return how much of a resource each node has when nothing runs."""
        if self._ask is not None and name == self._decides:
            return self._of_cards
        return self._nodes.column(self._nodes.total, name)

    def gpu_units(self) -> Amounts:
        """Return how many units of GPUs the request would take on each node. A request for GPU
        memory is converted by the memory of the node's largest card.
        """
        ask, nodes = self._ask, self._nodes
        if ask is None or not ask.memory:
            asked = self.request.resources.get(GPU, 0)
            return np.full(len(nodes), asked, np.int64)
        size = np.maximum(nodes.column(nodes.total, MEMORY) // SCALE, 1)
        units: Amounts = -(-ask.memory * SCALE // size) * ask.count
        return units

    def _free(self, name: str, units: int) -> Amounts:
        """Return how much of a resource is free on each node for a demand of `units`. Of numbered
        devices, only devices that are entirely free count. For a demand below one device, the
        largest free share of one device counts instead.
        """
        nodes = self._nodes
        if self._ask is not None:
            if name == self._decides:
                return self._on_cards
            if name == GPU:
                return nodes.column(nodes.total, name)
        if name in nodes.numbered and self.request.exact_devices:
            return nodes.column(nodes.share if units < SCALE else nodes.whole, name)
        return nodes.column(nodes.available, name)


class ClusterView:
    """All nodes, and the facts about them for the last `limit` classes of requests."""

    def __init__(self, nodes: NodeTable, limit: int = 256) -> None:
        self.nodes = nodes
        self._limit = limit
        self._classes: dict[Request, RequestClass] = {}

    def of(self, request: Request) -> RequestClass:
        """Return the class of `request`. Its facts are up to date."""
        found = self._classes.pop(request, None)
        if found is None:
            found = RequestClass(self.nodes, request)
            if len(self._classes) >= self._limit:
                del self._classes[next(iter(self._classes))]
        else:
            found.catch_up()
        self._classes[request] = found  # moved to the end, since the oldest class is dropped first
        return found


def _tell(turned_away: list[TurnedAway], found: TurnedAway) -> None:
    if found.nodes:
        turned_away.append(found)


def _short(kind: Filter, name: str, units: int, has: Amounts) -> TurnedAway:
    """Return the entry of a rejection for the nodes that a filter turns away. `has`: how much of
    the resource each of these nodes has.
    """
    most = int(has.max()) if has.size else 0
    return TurnedAway(
        filter=kind,
        nodes=int(has.size),
        resource=name,
        asked=from_units(units),
        most=from_units(max(0, most)),
    )


def _special_ask(request: Request, nodes: NodeTable) -> CardAsk | None:
    """Return the cards that a request needs; None for whole GPUs, and for a share of one GPU that
    is shared by time.
    """
    if GPU not in request.resources or GPU not in nodes.numbered or not request.exact_devices:
        return None
    ask = card_ask(request.resources)
    is_usual = ask is not None and ask.mode == TIME and not ask.memory and not ask.profile
    return None if is_usual else ask
