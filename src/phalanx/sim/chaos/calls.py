"""A simulated owner's actors, made, called and heard of: as `embedded.client.calls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from phalanx.model.lifecycle import DEAD
from phalanx.owner.actors.client import ActorClient, PendingCall
from phalanx.owner.actors.clients import ActorClients
from phalanx.protocol.messages import Call, Done, Failed
from phalanx.protocol.requests.actors import ActorSpec, KnownActor, RegisterActor, WatchActor
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.network import End


class SimCalls:
    """The caller's shell for actors."""

    def __init__(self, driver: SimDriver) -> None:
        self._driver = driver
        self.clients = ActorClients(driver, self._watch, self._dead)
        self._by_number: dict[int, PendingCall] = {}

    def create(self, spec: ActorSpec) -> ActorClient:
        """Have an actor made."""
        client = self.clients.known[spec.actor] = ActorClient(spec.actor, self)
        client.name = spec.class_name

        def answered(answer: Callable[[], KnownActor]) -> None:
            answer()

        self._driver.ask(RegisterActor(spec, creation=b"", files=[]), answered)
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

    def _watch(self, actor: bytes) -> None:
        self._driver.notify(WatchActor(actor))

    def _dead(self, client: ActorClient) -> None:
        self._driver.world.promises.actor_dead(self._driver, client)

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
