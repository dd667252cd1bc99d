"""Bundles that share one domain of nodes: one rack, one NVLink fabric, one building."""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.placement.bundles.request import (
    BundleRejection,
    BundleRequest,
    BundlesPlaced,
)
from phalanx.scheduler.placement.bundles.strategies import BundleOutcome, place
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.request_class import ClusterView


def pick_bundles(view: ClusterView, asked: BundleRequest) -> BundleOutcome:
    """Return nodes for all bundles of a group. If the group asks for a domain, all nodes are in one
    domain.

    Domains whose totals are too small are skipped. If several domains can take the group, the one
    with the least room is chosen, so that large domains stay free for large groups. Nodes without
    the label belong to no domain.
    """
    if asked.domain_label is None:
        return place(view, asked)
    placed: list[tuple[float, str, BundlesPlaced]] = []
    reason = "infeasible"
    for domain, flags in _domains(view, asked.domain_label).items():
        if asked.domain not in (None, domain) or not _could_hold(view, asked, flags):
            continue
        outcome = place(view, asked, flags)
        if isinstance(outcome, BundlesPlaced):
            found = BundlesPlaced(nodes=outcome.nodes, domain=domain)
            placed.append((_room_in(view, asked, flags), domain, found))
        elif outcome.reason == "unavailable":
            reason = "unavailable"
    if placed:
        return min(placed, key=lambda found: found[:2])[2]
    where = f"{asked.domain_label}={asked.domain}" if asked.domain else f"one {asked.domain_label}"
    if reason == "infeasible":
        return BundleRejection(reason="infeasible", detail=f"{where} could not hold all bundles")
    return BundleRejection(reason="unavailable", detail=f"{where} has no room for all bundles now")


def _domains(view: ClusterView, label: str) -> dict[str, Flags]:
    domains: dict[str, Flags] = {}
    for row, node in enumerate(view.nodes.states):
        value = node.labels.get(label)
        if value is not None:
            flags = domains.setdefault(value, np.zeros(len(view.nodes), np.bool_))
            flags[row] = True
    return dict(sorted(domains.items()))


def _could_hold(view: ClusterView, asked: BundleRequest, flags: Flags) -> bool:
    nodes = view.nodes
    usable = flags & nodes.is_schedulable
    return all(
        int(nodes.column(nodes.total, name)[usable].sum()) >= units
        for name, units in asked.summed().items()
    )


def _room_in(view: ClusterView, asked: BundleRequest, flags: Flags) -> float:
    """Return how many groups like this one the free resources of the domain would hold. The
    scarcest resource decides.
    """
    nodes = view.nodes
    return min(
        float(nodes.column(nodes.available, name)[flags].sum()) / units
        for name, units in asked.summed().items()
    )
