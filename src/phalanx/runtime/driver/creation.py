"""Creates actors in the runtime, finds named actors, and lets an actor end itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from phalanx.model.options import required_resources
from phalanx.model.raw_bytes import encoded
from phalanx.model.signatures import ActorShape
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import dumps_definition
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.actors.registration import Registration
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.requests.actors import ActorSpec, GetActor
from phalanx.runtime.driver.arguments import pack_arguments
from phalanx.runtime.driver.call_sites import are_recorded, place_of
from phalanx.runtime.driver.handles import Caller, EmbeddedHandle
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.requests import NodeRequests
from phalanx.runtime.driver.strategies import (
    capturing_group,
    environment_of,
    strategy_of,
)
from phalanx.runtime.driver.values import Packed
from phalanx.runtime.driver.waiting import Waiting
from phalanx.runtime.engine.definitions import ActorDefinition
from phalanx.worker import launch_hooks


class ActorMaker:
    """Creates actors for any thread of this process, and finds named actors."""

    def __init__(
        self,
        me: bytes,
        lock: AbstractContextManager[Any],
        registration: Registration,
        requests: NodeRequests,
        waiting: Waiting,
        pack: Callable[[Any], Packed],
        job: JobSettings,
        caller: Caller,
    ) -> None:
        self._me = me
        self._lock = lock
        self._registration = registration
        self._requests = requests
        self._waiting = waiting
        self._pack = pack
        self._job = job
        self._caller = caller

    def create(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> EmbeddedHandle[Any]:
        """Create an actor and return its handle.

        If the options contain `get_if_exists`, and an actor of that name exists already, return the
        handle of that actor. Raises ActorAlreadyExistsError if the name is taken and
        `get_if_exists` is not given.
        """
        name = definition.name
        key, data = _record(definition)
        payload, inputs, pins = pack_arguments(self._pack, f"{name}.__init__", args, kwargs)
        explicit = any(
            options.get(k) is not None
            for k in ("num_cpus", "num_gpus", "gpu_memory", "resources", "accelerator_type")
        )
        # As in Ray, an actor with no resources, or only memory, needs one CPU to be placed, but
        # holds none.
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
            {
                method: dumps_definition(wrap, f"The decorator of {name}.{method}")
                for method, wrap in definition.decorators.items()
            },
            0 if groups else concurrency,
            options.get("enable_task_events") is not False,
        )
        creation = Creation(
            key, data, name, payload, [], concurrency, groups, is_async, shape.out_of_order
        )
        job = self._job
        environment = environment_of(job, options)
        has_image = job.has_image(environment)
        cls = definition.cls.__qualname__
        strategy = strategy_of(options, place, cls, capturing_group(), has_image=has_image)
        launch_hooks.launches(launch_hooks.of_actors, definition.cls, place, strategy)
        spec = ActorSpec(
            actor=os.urandom(12) + self._me[12:],
            class_name=cls,
            call_site=place_of("actor call") if are_recorded() else "",
            name=options.get("name") or "",
            namespace=options.get("namespace") or job.namespace,
            detached=options.get("lifetime") == "detached",
            max_restarts=options.get("max_restarts") or 0,
            place=place,
            hold=hold,
            environment=environment,
            strategy=strategy,
            priority=job.priority if (own := options.get("priority")) is None else own,
            handle=encoded(msgspec.msgpack.encode, shape),
            task_events=shape.task_events,
        )
        ref = None if spec.detached else self._registration.reference(spec.actor)
        with self._lock:
            client = self._registration.begin(spec.actor, creation, inputs, pins)
            if not spec.name:
                self._registration.register_when_ready(client, creation, inputs, spec)
                return EmbeddedHandle(client, shape, ref)
        get_if_exists = bool(options.get("get_if_exists"))
        return self._register_named(client, creation, inputs, spec, get_if_exists, shape, ref)

    def _register_named(
        self,
        client: ActorClient,
        creation: Creation,
        inputs: list[ObjectRef[Any]] | None,
        spec: ActorSpec,
        get_if_exists: bool,
        shape: ActorShape,
        ref: ObjectRef[Any] | None,
    ) -> EmbeddedHandle[Any]:
        """Register a named actor with the head, and wait for the answer before a handle is made,
        because the name may be taken. Returns the handle of the new actor or, with `get_if_exists`,
        of the actor that has the name already.
        """
        for waiting in inputs or ():
            self._waiting.wait_for(waiting)
        with self._lock:
            self._registration.say_released()
            request = self._registration.build_request(spec, creation, inputs, get_if_exists)
        known = self._requests.ask(request)
        if not known.existed:
            return EmbeddedHandle(client, shape, ref)
        if ref is not None:
            ref._hold.actor = b""
        with self._lock:
            client = self._registration.use_existing(client, known.actor)
        return EmbeddedHandle(client, msgspec.msgpack.decode(known.handle, type=ActorShape), None)

    def get(self, name: str, namespace: str | None) -> EmbeddedHandle[Any]:
        """Return a handle of a named actor. Raises ValueError if there is none."""
        with self._lock:
            self._registration.say_released()
        known = self._requests.ask(GetActor(name, namespace or self._job.namespace))
        shape = msgspec.msgpack.decode(known.handle, type=ActorShape)
        return self._caller.handle_of(known.actor, shape, None)


class InBundle:
    """The strategy of an actor that is a member of a gang."""

    def __init__(self, wire: dict[str, Any]) -> None:
        self._wire = wire

    def to_wire(self, resources: Mapping[str, float], name: str) -> dict[str, Any]:
        """Return the actor's bundle of the gang, in the form that the node reads."""
        return self._wire


def _record(definition: ActorDefinition) -> tuple[bytes, bytes]:
    if definition.record is None:
        data = dumps_definition(definition.cls, f"The actor {definition.name}")
        definition.record = (hashlib.sha256(data).digest()[:12], data)
    return definition.record
