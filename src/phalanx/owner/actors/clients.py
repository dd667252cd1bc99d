"""All actors that one process calls, with the news about them and the connections to them.

News that an actor has ended are applied after the end of the connection to it, because results may
still be on their way. When a connection to another node ends without such news, the actor is
*astray*: perhaps only the connection has ended. Then the head is asked whether the actor still
runs, was restarted, or is dead.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.lifecycle import ALIVE, DEAD, RESTARTING
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.peers.connections import Peers
from phalanx.owner.transport import Connection
from phalanx.protocol.node_messages import ActorUpdate

ASK_AGAIN_S = 5.0
"""Seconds without a connection to an actor after which its caller asks the head again where the
actor is.

The question is repeated because news about actors may get lost.
"""


class ActorClients:
    """The actors that one process calls."""

    def __init__(
        self, peers: Peers, watch: Callable[[bytes], None], on_known: Callable[[ActorClient], None]
    ) -> None:
        """`watch` asks the head where an actor is. `on_known` is called for each actor that has
        come back, and for each that will never come back.
        """
        self._peers = peers
        self._watch = watch
        self._on_known = on_known
        self.known: dict[bytes, ActorClient] = {}
        """The clients by the ids of their actors. Callers add to this table."""
        self._held_back: dict[bytes, ActorUpdate] = {}
        """For each actor: news that are applied when the connection to it has ended."""
        self._astray: dict[bytes, None] = {}
        self._cut_off: frozenset[bytes] = frozenset()
        """Actors that had calls but no connection when they were last looked at."""
        self._look_at = 0.0

    # ---- news --------------------------------------------------------------------------------

    def updated(self, message: ActorUpdate) -> None:
        """Handle news about an actor: its worker, or the reason why it has no worker."""
        client = self.known.get(message.actor)
        if client is None or message.incarnation < client.incarnation:
            return
        if message.state != ALIVE and client.connection is not None:
            self._held_back[message.actor] = message
            return
        self._apply(client, message)

    def _apply(self, client: ActorClient, message: ActorUpdate) -> None:
        client.incarnation = message.incarnation
        if client.actor in self._astray:
            if message.state == ALIVE and message.worker == client.worker:
                # `tick` decides whether this leads to a connection
                self._peers.peer(message.worker)
                return
            del self._astray[client.actor]
            if message.state == ALIVE:
                _interrupt(client, "it was restarted")
        client.reason = message.reason
        client.error, client.code = message.error, message.code
        client.repr_name = message.repr_name
        if message.state == ALIVE:
            self._came_up(client, message.worker)
        elif message.state == RESTARTING:
            client.restarting()
        elif message.state == DEAD:
            client.dead()
            self.known.pop(client.actor, None)
            self._on_known(client)
        else:
            client.state = message.state

    def _came_up(self, client: ActorClient, worker: bytes) -> None:
        self._held_back.pop(client.actor, None)
        if client.worker != worker and (client.connection is not None or client.inflight):
            # Either this process has not noticed the end of the actor's old process, or the news
            # was lost.
            _interrupt(client, "it was restarted")
        client.state = ALIVE
        client.worker = worker
        client.connection = self._peers.peer(worker)
        self._on_known(client)
        if client.connection is not None:
            client.pump()

    # ---- connections -------------------------------------------------------------------------

    def connection_ended(self, connection: Connection) -> None:
        """Apply the news that waited for the end of this connection, because all answers have now
        come.
        """
        for client in list(self.known.values()):
            if client.connection is connection:
                client.connection = None
                update = self._held_back.pop(client.actor, None)
                if update is not None:
                    self._apply(client, update)
                elif client.state == ALIVE and not self._peers.is_here(client.worker):
                    self._astray[client.actor] = None

    def tick(self, now: float) -> None:
        """Ask the head about actors that cannot be reached. They may still run."""
        if now >= self._look_at:
            self._look_at = now + ASK_AGAIN_S
            self._ask_for_cut_off()
        for actor in list(self._astray):
            client = self.known.get(actor)
            if client is None:
                self._astray.pop(actor, None)
                continue
            connection = self._peers.known(client.worker)
            if connection is None:
                self._watch(actor)
            elif not connection.is_dialling:
                self._astray.pop(actor, None)
                _interrupt(client, "the connection to it was lost")
                client.state, client.connection = ALIVE, connection
                self._on_known(client)
                client.pump()

    def _ask_for_cut_off(self) -> None:
        cut_off = [c.actor for c in self.known.values() if c.pending and c.connection is None]
        for actor in cut_off:
            if actor in self._cut_off:
                self._watch(actor)
        self._cut_off = frozenset(cut_off)


def _interrupt(client: ActorClient, reason: str) -> None:
    """Fail the unanswered calls of an actor or queue them again, because it is unknown which of
    them have run.
    """
    client.state, client.reason = RESTARTING, reason
    client.interrupted()
