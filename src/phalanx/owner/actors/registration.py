"""Registers actors with the head, when the arguments of their constructors are here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from phalanx.errors import MessageTooLargeError
from phalanx.model.ids import INDEX_BITS
from phalanx.model.raw_bytes import encoded
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.actors.calls import Calls
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.objects.inputs import failed_input
from phalanx.owner.objects.references import References
from phalanx.owner.objects.table import Callback, ObjectTable
from phalanx.owner.requests import Requests
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import SHARED, Value
from phalanx.protocol.requests.actors import ActorSpec, AnnounceActor, KillActor, RegisterActor


class ActorHold:
    """A hold on the creator's reference to an actor. When the reference is gone, the hold releases
    the actor.
    """

    __slots__ = ("actor", "released")

    def __init__(self, actor: bytes, released: deque[bytes]) -> None:
        self.actor = actor
        self.released = released

    def __del__(self) -> None:
        self.released.append(self.actor)


class Registration:
    """Registers the actors that this process creates."""

    def __init__(
        self,
        me: bytes,
        numbers: Iterator[int],
        requests: Requests,
        objects: ObjectTable,
        references: References,
        calls: Calls,
    ) -> None:
        self._me = me
        self._numbers = numbers
        self._requests = requests
        self._objects = objects
        self._references = references
        self._calls = calls

    def begin(
        self,
        actor: bytes,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
    ) -> ActorClient:
        """Return the client of an actor that will be registered. Calls can be queued immediately.

        `inputs` and `pins` belong to the arguments of the actor's constructor; see PendingWork.
        """
        client = self._calls.client(actor, watch=False)
        client.name = creation.class_name
        client.out_of_order = creation.out_of_order
        client.hold = (inputs, pins)
        return client

    def reference(self, actor: bytes) -> ObjectRef[Any]:
        """Return a reference that keeps an actor alive for as long as the reference exists.
        Detached actors need none.
        """
        ref = make_ref(self._me, next(self._numbers) << INDEX_BITS)
        ref._value = failures.NONE
        ref._hold = ActorHold(actor, self._calls.released)
        return ref

    def say_released(self) -> None:
        """Report the released actors. Call this before this process looks up an actor by name.

        Otherwise the name of a released actor might lead to that actor.
        """
        self._calls.flush_released()

    def register_when_ready(
        self,
        client: ActorClient,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        spec: ActorSpec,
    ) -> None:
        """Register an actor when all inputs are here. Until then, announce it."""
        missing = [ref for ref in inputs or () if ref._value is None]
        if not missing:
            self._register(client, creation, inputs, spec)
            return
        self._requests.notify(AnnounceActor(spec))
        left = len(missing)

        def ready() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._register(client, creation, inputs, spec)

        for ref in missing:
            self._objects.add_waiter(ref, Callback(ready))
            self._objects.fetch(ref)

    def _register(
        self,
        client: ActorClient,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        spec: ActorSpec,
    ) -> None:
        failure = failed_input(inputs)
        if failure is not None:
            client.error = failure.data
            self._end(
                client, "The actor died because one of the arguments of its constructor failed."
            )
            return
        try:
            self._requests.notify(self.build_request(spec, creation, inputs))
        except MessageTooLargeError as error:
            self._end(client, f"The actor died before it was made: {error}")

    def _end(self, client: ActorClient, reason: str) -> None:
        """End an actor that was announced and will not be registered."""
        client.reason = reason
        client.dead()
        self._requests.notify(KillActor(client.actor, no_restart=True))

    def build_request(
        self,
        spec: ActorSpec,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        get_if_exists: bool = False,
    ) -> RegisterActor:
        """Return the request that creates the actor. All inputs must be here."""
        for ref in inputs or ():
            self._references.export(ref)  # the actor may fetch this input again
        creation.inputs = [self._objects.for_sending(ref) for ref in inputs or ()]
        creation.sources = [(ref._owner, ref._number) for ref in inputs or ()]
        large = [v for v in (creation.args, *creation.inputs) if type(v) is Value]
        files = [value.data.decode() for value in large if value.kind == SHARED]
        return RegisterActor(spec, encoded(msgspec.msgpack.encode, creation), files, get_if_exists)

    def use_existing(self, client: ActorClient, actor: bytes) -> ActorClient:
        """Return the client of `actor`, which exists already under the name of the actor that was
        to be created. Forget `client`, which was made for the new actor.
        """
        self._calls.clients.known.pop(client.actor, None)
        return self._calls.client(actor)
