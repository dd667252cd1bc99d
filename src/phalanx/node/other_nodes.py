"""Handles the messages of other nodes, and the loss of a node.

Each node has one connection to every node that it asks, and one from every node that asks it. When
one of the two connections between nodes ends, or when the head declares one of the nodes dead, each
of the two nodes forgets everything that it had from the other node.
"""

from __future__ import annotations

from typing import Any

from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DRAINING
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.effects import NodeEffects
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.remote import BorrowedLeases, LeaseInquiries
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import Peer, Peers
from phalanx.node.spillback_planner import PlanRequests
from phalanx.protocol.cluster_messages import (
    NodeDied,
    ProcessEnded,
    Via,
    View,
)
from phalanx.protocol.frames import decode_body


class OtherNodes:
    """Passes on messages of other nodes, and forgets nodes that are gone."""

    def __init__(
        self,
        effects: NodeEffects,
        *,
        links: NodeLinks,
        peers: Peers,
        leases: LeaseMachine,
        spilling: Spills,
        inquiries: LeaseInquiries,
        borrowed: BorrowedLeases,
        store: ObjectStore,
        plans: PlanRequests,
    ) -> None:
        self._effects = effects
        self._clock = effects.clock
        self._prefix = links.prefix
        self._links = links
        self._peers = peers
        self._leases = leases
        self._spilling = spilling
        self._inquiries = inquiries
        self._borrowed = borrowed
        self._store = store
        self._plans = plans
        self.from_afar = PeerMessageTable()
        """The handlers for messages that processes of other nodes may send to this node."""
        self.from_nodes = PeerMessageTable()
        """The handlers for messages that other nodes may send to this node."""
        self.from_nodes.on(Via, self._via)
        self.from_nodes.on(ProcessEnded, self._process_ended)

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's messages about nodes."""
        table.on(View, self.view)
        table.on(NodeDied, self.node_died)

    # ---- messages of the head --------------------------------------------------------------------

    def view(self, message: View) -> None:
        """Store the rows of nodes that the head has sent."""
        if message.is_whole:  # a restarted head may not know all nodes that the previous head knew
            known = {row.prefix for row in message.rows}
            for prefix in [p for p in self._links.known() if p not in known]:
                self._cut(prefix, "the head does not know its node", is_dead=True)
                self._links.forget(prefix)
        for row in message.rows:
            self._links.node_known(row.prefix, row.node_id)
            if row.prefix != self._prefix:
                self._spilling.put(row)
            elif row.state == DRAINING and not self._leases.is_draining:
                self._leases.drain(self._clock())
            elif row.state != DRAINING and self._leases.is_draining:
                self._leases.undrain(self._clock())
        self._effects.know_addresses(row for row in message.rows if row.prefix != self._prefix)
        self._plans.request()

    def node_died(self, message: NodeDied) -> None:
        """Forget a node that the head has declared dead."""
        self._links.node_died(message.prefix)
        self._cut(message.prefix, message.reason, is_dead=True)
        for peer in self._peers.local():
            peer.post(message)
        self._store.node_gone(message.prefix)
        self._effects.sweep()

    def connection_lost(self, connection: Peer, refusal: str) -> None:
        """Handle the end of the connection to or from a node. `refusal`: why the connection could
        not be made, if it was never made.
        """
        if self._links.is_current(connection):
            reason = refusal or "the connection to its node was lost"
            self._cut(connection.peer[:PREFIX_BYTES], reason)

    def _cut(self, prefix: bytes, reason: str, is_dead: bool = False) -> None:
        """Forget everything that this node had from another node, or had lent to that node.
        `is_dead`: whether the head has declared that node dead. If not, only the connection was
        lost.
        """
        self._links.cut(prefix)
        self._inquiries.node_cut(prefix)
        self._borrowed.node_cut(prefix, reason)
        for process in self._peers.of_node(prefix):
            self._peers.remove(process)
            self._process_gone(process)
        node_id = self._links.node_id(prefix)
        if node_id:
            forget = self._spilling.remove if is_dead else self._spilling.forget
            forget(node_id)
        # otherwise the next tick asks, because asking now would dial a dead node again and again
        if is_dead:
            self._plans.request()

    def _process_gone(self, process: bytes) -> None:
        self._leases.owner_gone(process, self._clock())
        self._store.process_gone(process)

    # ---- messages of other nodes -----------------------------------------------------------------

    def on_message(self, connection: Peer, message: Any) -> None:
        """Handle a message of another node. A node that may not send it loses its connection."""
        if not self.from_nodes.handle(connection, message):
            self._links.lose(connection)

    def _via(self, connection: Peer, message: Via) -> None:
        """Handle messages for a process of this node, and messages of a process of the other
        node.
        """
        sender = connection.peer[:PREFIX_BYTES]
        where = message.process[:PREFIX_BYTES]
        if where == self._prefix:
            for inner in decode_body(message.body):
                self._borrowed.on_message(sender, message.process, inner)
        elif where == sender:
            peer = self._peers.get(message.process)
            if peer is None:
                peer = self._links.peer(message.process)
                self._peers.add(peer)
            for inner in decode_body(message.body):
                self.from_afar.handle(peer, inner)
        else:
            self._links.lose(connection)

    def _process_ended(self, connection: Peer, message: ProcessEnded) -> None:
        self._peers.remove(message.process)
        self._process_gone(message.process)
        if not message.is_driver:  # otherwise the head decides which objects stay
            self._store.owner_gone(message.process)
