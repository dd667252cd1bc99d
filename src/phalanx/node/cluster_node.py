"""Builds a node of a cluster: its machines, its requests to other nodes, and its membership.

A node that is a whole cluster never imports this module: numpy and the choice among nodes would
take a third of its start time.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import PREFIX_BYTES, node_prefix
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.group_places import GroupPlaces
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.leases.remote import LeaseInquiries
from phalanx.node.membership import ClusterMembership, HeadEffects, MembershipOptions
from phalanx.node.node import Node
from phalanx.node.options import SpillOptions
from phalanx.node.spillback import Spillback
from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes


def cluster_node(
    setup: NodeSetup,
    effects: NodeEffects,
    options: MembershipOptions,
    head: HeadEffects,
    spilling: SpillOptions,
    rng: RandomSource,
) -> Node[ClusterMembership]:
    """Build a node of a cluster whose head is another process. `rng`: chooses among equal nodes."""
    link = RemoteHeadLink()

    def make_membership(node: Node[ClusterMembership]) -> ClusterMembership:
        return ClusterMembership(node, effects.clock, options=options, link=link, effects=head)

    return Node(setup, effects, link, spilling_of(setup.node_id, spilling, rng), make_membership)


def spilling_of(
    node_id: str, options: SpillOptions, rng: RandomSource
) -> Callable[[LeaseInquiries, GroupPlaces], Spillback]:
    """Return the function that makes the `Spillback`. The `Spillback` chooses nodes for the work
    submitted on this node.
    """
    prefix = node_prefix(node_id)

    def make(inquiries: LeaseInquiries, places: GroupPlaces) -> Spillback:
        return Spillback(
            node_id,
            ClusterNodes(),
            inquiries,
            rng,
            options,
            lambda owner: owner[:PREFIX_BYTES] == prefix,
            places.nodes_of,
        )

    return make
