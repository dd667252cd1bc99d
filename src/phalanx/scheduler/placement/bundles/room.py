"""The nodes with room for a bundle, how well it would fit, and one node while it is filled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from phalanx.scheduler.devices.devices import LowestIndex, take
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.node_table import NodeState
from phalanx.scheduler.placement.request_class import ClusterView, Request

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def leftover(view: ClusterView, resources: ResourceSet, rows: Rows) -> Scores:
    """Return for each row the part of what is available that would be left, summed over
    resources."""
    scores = np.zeros(rows.size)
    for name, units in resources.items():
        available = view.nodes.column(view.nodes.available, name)[rows]
        scores += (available - units) / available
    return scores


def leftover_of(available: ResourceSet, resources: ResourceSet) -> float:
    """Return `leftover` of one node; -1 when the resources do not fit."""
    score = 0.0
    for name, units in resources.items():
        has = available.get(name, 0)
        if has < units:
            return -1.0
        score += (has - units) / has if has else 0.0
    return score


def stuffed(
    view: ClusterView, requests: Sequence[Request], rows: Rows
) -> tuple[npt.NDArray[np.int64], Scores]:
    """Return for each row how many of the requests fit one after the other, and what part is left.

    Shares of devices are counted as if no device were opened for them; `Room` is exact.
    """
    nodes = view.nodes
    names = sorted({name for request in requests for name in request.resources})
    had = {name: nodes.column(nodes.available, name)[rows] for name in names}
    left = {name: units.copy() for name, units in had.items()}
    whole = {
        name: nodes.column(nodes.whole, name)[rows] for name in names if name in nodes.numbered
    }
    counts = np.zeros(rows.size, np.int64)
    for request in requests:
        fits = view.of(request).available[rows]
        for name, units in request.resources.items():
            fits = fits & (left[name] >= units)
            if name in whole and units >= SCALE:
                fits &= whole[name] >= units
        for name, units in request.resources.items():
            left[name][fits] -= units
            if name in whole and units >= SCALE:
                whole[name][fits] -= units
        counts += fits
    parts = np.zeros(rows.size)
    for name in names:
        parts += left[name] / np.maximum(had[name], 1)
    return counts, parts


class Room:
    """The amounts left on one node while bundles are put on it, device by device."""

    def __init__(self, node: NodeState, numbered: frozenset[str], exact_devices: bool) -> None:
        """Without `exact_devices` only sums are compared."""
        self.node = node
        self.available = node.available
        self._devices = {
            name: dict(enumerate(node.units_left(name)))
            for name in sorted(numbered)
            if exact_devices and name in node.available
        }

    def add(self, resources: ResourceSet) -> bool:
        """Put a bundle here if there is room for all of it; return whether there was."""
        left = self.available
        if any(units > left.get(name, 0) for name, units in resources.items()):
            return False  # an overdrawn resource that it does not ask for does not matter
        taken = {
            name: take(self._devices[name], units, LowestIndex())
            for name, units in resources.items()
            if name in self._devices
        }
        if any(devices is None for devices in taken.values()):
            return False
        for name, devices in taken.items():
            for index, units in devices or ():
                self._devices[name][index] -= units
        self.available = self.available - resources
        return True
