"""All actors that one process calls: what it hears of each, and of the ways that lead there.

News of an actor's end count once the connection to it has ended, as results may still be on their
way. When a connection to another node ends without news, the actor is *astray*: perhaps only the
way to it has ended. The control store is asked, and the actor is found again, or heard to be dead
or restarted. The embedded caller's shell stands on this, and so does the simulated one
(`sim.chaos.calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from phalanx.model.lifecycle import ALIVE, DEAD, RESTARTING
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.reaching import Reaching
from phalanx.protocol.node_messages import ActorUpdate


class Peers(Protocol):
    """The other processes that this one can speak with."""

    def peer(self, process_id: bytes) -> Any | None:
        """The connection to a process, made when there is none; None when it is gone."""
        ...

    def known_peer(self, process_id: bytes) -> Any | None:
        """The connection to a process if there is one."""
        ...

    def is_here(self, process_id: bytes) -> bool:
        """Whether it is of this node: then the end of its connection is its own end."""
        ...


class ActorClients:
    """What one process knows of the actors it calls."""

    def __init__(
        self, peers: Peers, ask: Callable[[bytes], None], on_dead: Callable[[ActorClient], None]
    ) -> None:
        """`ask` has the control store tell where an actor is; `on_dead` is told of those of which
        nothing more will be heard."""
        self._peers = peers
        self._ask = ask
        self._on_dead = on_dead
        self._reaching = Reaching(ask)
        self.known: dict[bytes, ActorClient] = {}
        """By their ids; who is to be called next is put in by the shell."""
        self._held_back: dict[bytes, ActorUpdate] = {}
        """News that wait for the end of the connection."""
        self._astray: dict[bytes, None] = {}

    # ---- news --------------------------------------------------------------------------------

    def updated(self, message: ActorUpdate) -> None:
        """The node says where an actor is, or why it is not."""
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
                self._peers.peer(message.worker)  # `tick` looks whether that leads anywhere
                return
            del self._astray[client.actor]
            if message.state == ALIVE:
                _interrupt(client, "it was restarted")
        client.reason = message.reason
        client.error = message.error
        if message.state == ALIVE:
            self._came_up(client, message.worker)
        elif message.state == RESTARTING:
            client.state = RESTARTING
            client.interrupted()
        elif message.state == DEAD:
            client.dead()
            self.known.pop(client.actor, None)
            self._on_dead(client)
        else:
            client.state = message.state

    def _came_up(self, client: ActorClient, worker: bytes) -> None:
        self._held_back.pop(client.actor, None)
        if client.connection is not None and client.worker != worker:
            _interrupt(client, "it was restarted")  # its old process's end is not seen yet
        client.state = ALIVE
        client.worker = worker
        client.connection = self._peers.peer(worker)
        if client.connection is not None:
            client.pump()

    # ---- connections -------------------------------------------------------------------------

    def connection_ended(self, connection: Any) -> None:
        """All answers of the actor there are in."""
        for client in list(self.known.values()):
            if client.connection is connection:
                client.connection = None
                update = self._held_back.pop(client.actor, None)
                if update is not None:
                    self._apply(client, update)
                elif client.state == ALIVE and not self._peers.is_here(client.worker):
                    self._astray[client.actor] = None

    def tick(self, now: float) -> None:
        """Ask what became of actors to which the way ended: they may be there still."""
        self._reaching.tick(now, self.known)
        for actor in list(self._astray):
            client = self.known.get(actor)
            if client is None:
                self._astray.pop(actor, None)
                continue
            connection = self._peers.known_peer(client.worker)
            if connection is None:
                self._ask(actor)
            elif not connection.is_dialling:
                self._astray.pop(actor, None)
                _interrupt(client, "the connection to it was lost")
                client.state, client.connection = ALIVE, connection
                client.pump()


def _interrupt(client: ActorClient, reason: str) -> None:
    """What was under way may have run or not."""
    client.state, client.reason = RESTARTING, reason
    client.interrupted()
