"""Room for bundles: which nodes have room and how well a bundle would fit there, and what a single
node has left while bundles are placed on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from phalanx.model.gpu_sharing import GPU, MEMORY, TERMS
from phalanx.scheduler.devices.cards import Taken, card_ask, pick_cards, shared_by, without_terms
from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.node_table import NodeState
from phalanx.scheduler.placement.request_class import ClusterView, Request

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def leftover(view: ClusterView, resources: ResourceSet, rows: Rows) -> Scores:
    """Return a number for each row: how much would be left if the request were taken there. It is
    the sum, over the requested resources, of the fraction of the available amount that would be
    left.
    """
    scores = np.zeros(rows.size)
    for name, units in without_terms(resources).items():
        available = view.nodes.column(view.nodes.available, name)[rows]
        scores += (available - units) / available
    return scores


def leftover_of(available: ResourceSet, resources: ResourceSet) -> float:
    """Return the number that `leftover` computes for one node; -1 if the resources do not fit
    there.
    """
    score = 0.0
    for name, units in without_terms(resources).items():
        has = available.get(name, 0)
        if has < units:
            return -1.0
        score += (has - units) / has if has else 0.0
    return score


def stuffed(
    view: ClusterView, requests: Sequence[Request], rows: Rows
) -> tuple[npt.NDArray[np.int64], Scores]:
    """Return two values for each row: how many of the requests fit one after another, and the sum
    of the fractions that are then left. Shares of devices are only added up here, so the values are
    estimates. `Room` looks at each device and is exact.
    """
    nodes = view.nodes
    plain = [without_terms(request.resources) for request in requests]
    names = sorted({name for resources in plain for name in resources})
    had = {name: nodes.column(nodes.available, name)[rows] for name in names}
    left = {name: units.copy() for name, units in had.items()}
    whole = {
        name: nodes.column(nodes.whole, name)[rows] for name in names if name in nodes.numbered
    }
    counts = np.zeros(rows.size, np.int64)
    for request, resources in zip(requests, plain, strict=True):
        known = view.of(request)
        fits = known.available[rows]
        by_memory = MEMORY in request.resources
        for name, units in resources.items():
            if by_memory and name == GPU:
                shares = known.gpu_units()[rows]
                fits = fits & (left[name] >= shares)
                left[name] -= np.where(fits, shares, 0)
                continue
            fits = fits & (left[name] >= units)
            if name in whole and units >= SCALE:
                fits &= whole[name] >= units
        for name, units in resources.items():
            if by_memory and name == GPU:
                continue
            left[name][fits] -= units
            if name in whole and units >= SCALE:
                whole[name][fits] -= units
        counts += fits
    parts = np.zeros(rows.size)
    for name in names:
        parts += left[name] / np.maximum(had[name], 1)
    return counts, parts


class Room:
    """The amounts left on one node, device by device, while bundles are placed there."""

    def __init__(self, node: NodeState, numbered: frozenset[str], exact_devices: bool) -> None:
        """Without `exact_devices`, only sums over all devices are compared, except for terms of
        cards.
        """
        self.node = node
        self.available = node.available
        self._cards = node.cards
        self._exact = numbered if exact_devices else frozenset()
        self._devices = {
            name: dict(enumerate(node.units_left(name)))
            for name in sorted(numbered)
            if name in node.available
        }

    def add(self, resources: ResourceSet) -> bool:
        """Put a bundle on this node if all of it fits. Returns whether the bundle fits."""
        left, amounts = self.available, without_terms(resources)
        if any(units > left.get(name, 0) for name, units in amounts.items()):
            return False  # a resource below zero does not matter if the bundle does not request it
        has_terms = amounts is not resources
        if has_terms and any(
            resources[t] > self.node.total.get(t, 0) for t in TERMS & {*resources}
        ):
            return False
        taken: dict[str, Taken] = {}
        for name, units in amounts.items():
            if name in self._devices and (name in self._exact or (has_terms and name == GPU)):
                found = self._take(name, units, resources)
                if found is None:
                    return False
                taken[name] = found
        for name, devices in taken.items():
            for index, units in devices:
                self._devices[name][index] -= units
        if GPU in taken and (ask := card_ask(resources)) is not None:
            self._cards = shared_by(self._cards, ask, taken[GPU])
        if has_terms and GPU in taken:
            amounts = ResourceSet({**amounts, GPU: sum(units for _, units in taken[GPU])})
        self.available = left - amounts
        return True

    def _take(self, name: str, units: int, resources: ResourceSet) -> Taken | None:
        ask = card_ask(resources) if name == GPU else None
        if ask is None:
            return take(self._devices[name], units, LowestIndex())
        return pick_cards(self._devices[name], ask, self._cards, self.node.card_memory)
