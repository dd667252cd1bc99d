"""Picks nodes for the bundles of a group, or reports why the cluster's nodes have no room for
them.
"""

from __future__ import annotations

from phalanx.model.rows.explanation import amounts_text
from phalanx.scheduler.devices.quantities import from_units
from phalanx.scheduler.placement.bundles.domain import pick_bundles
from phalanx.scheduler.placement.bundles.request import (
    BundleRejection,
    BundleRequest,
    BundlesPlaced,
)
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes


def pick_nodes(cluster: ClusterNodes, request: BundleRequest) -> BundlesPlaced | BundleRejection:
    """Return the nodes that the strategy picks, or a rejection. Bundles that together exceed the
    totals of all nodes are infeasible, too.
    """
    outcome = pick_bundles(cluster.view, request)
    if isinstance(outcome, BundlesPlaced) or outcome.reason == "infeasible":
        return outcome
    nodes = cluster.view.nodes
    usable = nodes.is_schedulable
    asked = request.summed()
    has = {name: int(nodes.column(nodes.total, name)[usable].sum()) for name in asked}
    lacking = {name: from_units(asked[name]) for name in asked if asked[name] > has[name]}
    if not lacking:
        return outcome
    there = {name: from_units(has[name]) for name in lacking}
    asks, most = amounts_text(lacking), amounts_text(there)
    detail = f"it asks for {asks} in all and the cluster has {most}"
    return BundleRejection(reason="infeasible", detail=detail)
