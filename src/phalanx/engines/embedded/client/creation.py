"""Making actors on the embedded engine, finding named ones, and leaving one's own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.engines.definitions import ActorDefinition
from phalanx.engines.embedded.client.arguments import pack_arguments
from phalanx.engines.embedded.client.handles import ActorHandle, handle_of
from phalanx.engines.embedded.client.registration import Creation, register_actor
from phalanx.engines.embedded.client.strategies import environment_of, strategy_of
from phalanx.errors import AsyncioActorExit, WorkerExit
from phalanx.model.options import required_resources
from phalanx.model.signatures import ActorShape
from phalanx.objects.serialization import blame, dumps_definition
from phalanx.protocol.requests.actors import ActorSpec, GetActor
from phalanx.worker.context import current

if TYPE_CHECKING:
    from phalanx.engines.embedded.engine import EmbeddedEngine


def create_actor(
    engine: EmbeddedEngine,
    definition: ActorDefinition,
    options: Mapping[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> ActorHandle[Any]:
    """See Engine."""
    runtime = engine.runtime
    name = definition.name
    key, data = _record(definition)
    payload, inputs, pins = pack_arguments(runtime, f"{name}.__init__", args, kwargs)
    explicit = any(
        options.get(k) is not None
        for k in ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type")
    )
    # As Ray: nothing said means one CPU to be placed and none to be held.
    place = required_resources(options, default_cpus=1)
    hold = required_resources(options, default_cpus=1 if explicit else 0)
    is_async = definition.is_async
    concurrency = options.get("max_concurrency") or (1000 if is_async else 1)
    groups = dict(options.get("concurrency_groups") or {})
    is_threaded = is_async or concurrency > 1 or bool(groups)
    out_of_order = options.get("allow_out_of_order_execution")
    shape = ActorShape(
        name,
        definition.methods,
        options.get("max_task_retries") or 0,
        options.get("max_pending_calls") or -1,
        is_threaded if out_of_order is None else out_of_order,
    )
    creation = Creation(
        key, data, name, payload, [], concurrency, groups, is_async, shape.out_of_order
    )
    spec = ActorSpec(
        actor=os.urandom(12) + runtime.process_id[12:],
        class_name=name,
        name=options.get("name") or "",
        namespace=options.get("namespace") or engine.namespace,
        detached=options.get("lifetime") == "detached",
        max_restarts=options.get("max_restarts") or 0,
        place=place,
        hold=hold,
        environment=environment_of(engine, options),
        strategy=strategy_of(options, place),
        priority=engine.priority if (own := options.get("priority")) is None else own,
        handle=msgspec.msgpack.encode(shape),
    )
    get_if_exists = bool(options.get("get_if_exists"))
    client, ref, known = register_actor(runtime, creation, inputs, pins, spec, get_if_exists)
    if known is not None and known.existed:
        shape = msgspec.msgpack.decode(known.handle, type=ActorShape)
    return ActorHandle(client, shape, ref)


class InBundle:
    """The strategy of an actor that is a member of a gang."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self._wire = wire

    def to_wire(self, resources: Mapping[str, float]) -> dict[str, Any]:
        """See Strategy."""
        return self._wire


def _record(definition: ActorDefinition) -> tuple[bytes, bytes]:
    if definition.record is None:
        try:
            data = dumps_definition(definition.cls)
        except Exception as error:
            raise TypeError(
                f"The actor class {definition.name} cannot be sent to workers: "
                f"{blame(definition.cls, error)}"
            ) from error
        definition.record = (hashlib.sha256(data).digest()[:12], data)
    return definition.record


def get_actor(engine: EmbeddedEngine, name: str, namespace: str | None) -> ActorHandle[Any]:
    """See Engine."""
    known = engine.ask(GetActor(name, namespace or engine.namespace))
    shape = msgspec.msgpack.decode(known.handle, type=ActorShape)
    return handle_of(engine.runtime, known.actor, shape, None)


def exit_actor() -> None:
    """See Engine."""
    context = current.get()
    if context is None or not context.is_actor:
        raise TypeError("exit_actor() can only be called inside an actor's method.")
    from asyncio import current_task

    try:
        inside_loop = current_task() is not None
    except RuntimeError:
        inside_loop = False
    if inside_loop:
        raise AsyncioActorExit("exit_actor() was called.")
    raise WorkerExit(0)
