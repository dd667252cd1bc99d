"""A node that is a whole cluster: its head is in its own process, and there are no other nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases.remote import LeaseInquiries
from phalanx.node.no_other_nodes import NoOtherNodes, Spills
from phalanx.node.node import Node
from phalanx.node.options import SpillOptions
from phalanx.node.single_node import LocalHead, SingleNodeMembership, single_node
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.gateway_messages import Pulled
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.system import log_defect


class NoReach:
    """The `Reach` of a node without other nodes."""

    def __init__(self, pulled: Callable[[Pulled], None]) -> None:
        self._pulled = pulled

    def dial(self, process: bytes) -> Connection:
        """Raise ConnectionError, because there is no other node."""
        raise ConnectionError("there is no other node")

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Do nothing: there are no other nodes."""

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """Report that the object was not copied, because there is no other node."""
        self._pulled(Pulled(name, False, "there is no other node", 0, 0.0))

    def release_file(self, name: str) -> None:
        """Do nothing: there are no copies of other nodes' objects."""


def node_alone(
    setup: NodeSetup,
    effects: NodeEffects,
    wake_at: Callable[[float], None],
    spilling: SpillOptions,
) -> Node[SingleNodeMembership]:
    """Return the machines of a node that is a whole cluster. `wake_at` requests that the head's
    `round` is called by a given time.
    """
    from phalanx.runtime.head.warming import Warming

    def make_head(send: Callable[[bytes, Any], None]) -> LocalHead:
        from phalanx.head.head import Head
        from phalanx.head.outbox import Outbox
        from phalanx.head.setup import HeadSetup, HeadShell
        from phalanx.head.state_store import StateStore
        from phalanx.runtime.os.probing import ThreadProber
        from phalanx.runtime.os.system import SystemClock, unforeseeable

        state_store = StateStore()
        return Head(
            Outbox(send, state_store),
            state_store,
            HeadShell(
                clock=SystemClock(),
                rng=unforeseeable(),
                prober=ThreadProber(),
                report_defect=log_defect,
            ),
            setup=HeadSetup(is_alone=True, placement=spilling.placement, settings=setup.settings),
        )

    def make_spilling(inquiries: LeaseInquiries, places: GroupPlaces) -> Spills:
        if spilling.placement.starts_here_first:
            return NoOtherNodes()
        # Imported only for a policy that chooses devices and can refuse, because it needs numpy.
        from phalanx.node.cluster_node import spilling_of

        return spilling_of(setup.node_id, spilling, random.Random())(inquiries, places)

    return single_node(setup, effects, make_head, wake_at, Warming().step, make_spilling)
