"""A simulated owner's actors, made, called and heard of: as `embedded.client.calls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.model.lifecycle import ALIVE, DEAD, RESTARTING
from phalanx.owner.actors import ActorClient, PendingCall
from phalanx.owner.reaching import Reaching
from phalanx.protocol.messages import Call, Done, Failed
from phalanx.protocol.node_messages import ActorUpdate, Reply
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.network import End


class SimCalls:
    """The caller's shell for actors."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self.clients: dict[bytes, ActorClient] = {}
        self._by_number: dict[int, PendingCall] = {}
        self._updates: dict[bytes, ActorUpdate] = {}
        self._astray: dict[bytes, None] = {}
        self._reaching = Reaching(lambda actor: driver.tell("watch_actor", actor=actor))

    def create(self, actor: bytes, **fields: Any) -> ActorClient:
        """Have an actor made."""
        driver = self._driver
        client = self.clients[actor] = ActorClient(actor, self)
        client.name = fields["class_name"]

        def answered(reply: Reply) -> None:
            assert reply.error is None, f"register_actor was refused: {reply.error}"

        driver.ask("register_actor", answered, actor=actor, creation=b"", **fields)
        return client

    def submit(self, client: ActorClient, work: Work, retries: int) -> PendingCall:
        """Call the actor."""
        number = next(self._driver.sequence)
        arguments = msgspec.msgpack.encode(work)
        call = PendingCall(number, client, "work", arguments, None, None, [], 1, retries, "")
        self._by_number[number] = call
        self._driver.world.promises.call_promised(self._driver, call)
        client.submit(call)
        return call

    # ---- effects -----------------------------------------------------------------------------

    def send_calls(self, actor: ActorClient, calls: list[PendingCall], urgent: bool) -> None:
        """See CallEffects."""
        for call in calls:
            actor.connection.post(
                Call(
                    call.number,
                    call.method,
                    call.args,
                    attempt=call.attempt,
                    actor=actor.actor,
                )
            )

    def fail_call(self, call: PendingCall, actor: ActorClient) -> None:
        """See CallEffects."""
        self._by_number.pop(call.number, None)
        error = "ActorDiedError" if actor.state == DEAD else "ActorUnavailableError"
        self._driver.world.promises.call_failed(self._driver, call, error, actor.reason)

    # ---- events ------------------------------------------------------------------------------

    def done(self, end: End, message: Done) -> bool:
        """A call gave its result; False when the number is no call of ours."""
        call = self._by_number.get(message.number)
        if call is None or call.actor.connection is not end:
            return False
        if call.actor.finished(message.number) is None:
            return False
        del self._by_number[message.number]
        self._driver.world.promises.call_done(self._driver, call, end.peer)
        return True

    def failed(self, end: End, message: Failed) -> bool:
        """A call raised; False when the number is no call of ours."""
        call = self._by_number.get(message.number)
        if call is None or call.actor.connection is not end:
            return False
        if call.actor.finished(message.number) is None:
            return False
        del self._by_number[message.number]
        self._driver.world.promises.call_failed(self._driver, call, "raised", "its own exception")
        return True

    def updated(self, message: ActorUpdate) -> None:
        """The node says where an actor is, or why it is not."""
        client = self.clients.get(message.actor)
        if client is None or message.incarnation < client.incarnation:
            return
        if message.state != ALIVE and client.connection is not None:
            self._updates[message.actor] = message  # results may still be on their way
            return
        self._apply(client, message)

    def _apply(self, client: ActorClient, message: ActorUpdate) -> None:
        client.incarnation = message.incarnation
        if message.actor in self._astray:
            if message.state == ALIVE and message.worker == client.worker:
                self._driver.peer(message.worker)
                return
            self._astray.pop(message.actor)
            if message.state == ALIVE:
                self._interrupt(client, "it was restarted")
        client.reason = message.reason
        client.error = message.error
        if message.state == ALIVE:
            self._updates.pop(client.actor, None)
            if client.connection is not None and client.worker != message.worker:
                self._interrupt(client, "it was restarted")
            client.state = ALIVE
            client.worker = message.worker
            client.connection = self._driver.peer(message.worker)
            if client.connection is not None:
                client.pump()
        elif message.state == RESTARTING:
            client.state = RESTARTING
            client.interrupted()
        elif message.state == DEAD:
            client.dead()
            self.clients.pop(client.actor, None)
            self._driver.world.promises.actor_dead(self._driver, client)
        else:
            client.state = message.state

    def peer_lost(self, end: End) -> None:
        """A connection's end: all answers of that actor are in."""
        for client in list(self.clients.values()):
            if client.connection is end:
                client.connection = None
                update = self._updates.pop(client.actor, None)
                if update is not None:
                    self._apply(client, update)
                elif client.state == ALIVE and not self._driver.is_here(client.worker):
                    self._astray[client.actor] = None

    def tick(self, now: float) -> None:
        """Ask what became of actors to which the way ended: they may be there still."""
        self._reaching.tick(now, self.clients)
        for actor in list(self._astray):
            client = self.clients.get(actor)
            if client is None:
                self._astray.pop(actor)
                continue
            end = self._driver.known_peer(client.worker)
            if end is None:
                self._driver.tell("watch_actor", actor=actor)
            elif not end.is_dialling:
                self._astray.pop(actor)
                self._interrupt(client, "the connection to it was lost")
                client.state, client.connection = ALIVE, end
                client.pump()

    def _interrupt(self, client: ActorClient, reason: str) -> None:
        client.state, client.reason = RESTARTING, reason
        client.interrupted()
