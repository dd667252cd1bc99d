"""Registering an actor to be made: at once, or when the arguments of its constructor are there."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.engines.embedded.client.arguments import failed_input
from phalanx.engines.embedded.client.values import Callback
from phalanx.engines.embedded.client.waiting import wait_for
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.actors.client import ActorClient
from phalanx.protocol.messages import SHARED, Payload, Value

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime


class Creation(msgspec.Struct, array_like=True):
    """What a worker needs to make an actor; opaque to the node."""

    class_key: bytes
    class_pickle: bytes
    class_name: str
    args: Payload
    inputs: list[Payload]
    max_concurrency: int
    groups: dict[str, int]
    is_async: bool
    out_of_order: bool
    sources: list[tuple[bytes, int]] = []
    """(owner, number) of the objects that the inputs are values of: a lost one is asked for."""


class ActorHold:
    """Hangs on the creator's reference to an actor: when it goes, so may the actor."""

    __slots__ = ("actor", "released")

    def __init__(self, actor: bytes, released: deque[bytes]) -> None:
        self.actor = actor
        self.released = released

    def __del__(self) -> None:
        self.released.append(self.actor)


def register_actor(
    runtime: Runtime,
    creation: Creation,
    inputs: list[ObjectRef[Any]] | None,
    pins: list[Any] | None,
    fields: dict[str, Any],
) -> tuple[ActorClient, ObjectRef[Any] | None, dict[str, Any]]:
    """Have an actor made. Called without the lock. Named ones are registered before this returns;
    raises ActorAlreadyExistsError."""
    actor = fields["actor"]
    ref = None
    if not fields.get("detached"):
        ref = make_ref(runtime.process_id, runtime.next_number())
        ref._value = failures.NONE
        ref._hold = ActorHold(actor, runtime.calls.released)
    with runtime.lock:
        client = runtime.calls.client(actor, watch=False)
        client.name = creation.class_name
        client.out_of_order = creation.out_of_order
        client.hold = (inputs, pins)
        missing = [r for r in inputs or () if r._value is None]
        if not missing and not fields.get("name"):
            _register(runtime, client, creation, inputs, fields)
            return client, ref, {}
        if missing and not fields.get("name"):
            _when_ready(runtime, client, creation, inputs or [], missing, fields)
            return client, ref, {}
    for waiting in missing:
        wait_for(runtime, waiting)
    with runtime.lock:
        fields |= _encode(runtime, creation, inputs)
    answer = runtime.requests.ask("register_actor", **fields)
    if answer["existed"]:
        if ref is not None:
            ref._hold.actor = b""
        with runtime.lock:
            runtime.calls.clients.known.pop(actor, None)
            client = runtime.calls.client(answer["actor"])
        return client, None, answer
    return client, ref, answer


def _register(
    runtime: Runtime,
    client: ActorClient,
    creation: Creation,
    inputs: list[ObjectRef[Any]] | None,
    fields: dict[str, Any],
) -> None:
    failure = failed_input(inputs)
    if failure is not None:
        client.reason = "The actor died because an argument of its constructor failed."
        client.error = failure.data
        client.dead()
        runtime.requests.tell("kill_actor", actor=client.actor, no_restart=True)
        return
    runtime.requests.tell("register_actor", **fields, **_encode(runtime, creation, inputs))


def _encode(
    runtime: Runtime, creation: Creation, inputs: list[ObjectRef[Any]] | None
) -> dict[str, Any]:
    """What the control store keeps of it: how it is made, and from which files."""
    values = runtime.values
    for ref in inputs or ():
        runtime.references.export(ref)  # the actor may have to ask for it again
    creation.inputs = [values.for_sending(ref) for ref in inputs or ()]
    creation.sources = [(ref._owner, ref._number) for ref in inputs or ()]
    large = [v for v in (creation.args, *creation.inputs) if type(v) is Value]
    files = [value.data.decode() for value in large if value.kind == SHARED]
    return {"creation": msgspec.msgpack.encode(creation), "files": files}


def _when_ready(
    runtime: Runtime,
    client: ActorClient,
    creation: Creation,
    inputs: list[ObjectRef[Any]],
    missing: list[ObjectRef[Any]],
    fields: dict[str, Any],
) -> None:
    runtime.requests.tell("announce_actor", **fields)
    left = [len(missing)]

    def ready() -> None:
        left[0] -= 1
        if not left[0]:
            _register(runtime, client, creation, inputs, fields)

    for ref in missing:
        runtime.values.add_waiter(ref, Callback(ready))
        runtime.values.fetch(ref)
