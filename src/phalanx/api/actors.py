"""Actor classes and handles: what `@phalanx.remote` makes of a class."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from phalanx.api.arguments import Arity, arity_of, pack_arguments
from phalanx.api.gangs import DEFAULT_GRACE_S, GangedActorClass, GangOptions
from phalanx.api.placement import environment_of, strategy_of
from phalanx.api.session import engine_or_start
from phalanx.engines.embedded.client.calls import Creation
from phalanx.engines.embedded.engine import EmbeddedEngine
from phalanx.errors import (
    ActorHandleNotFoundError,
    AsyncioActorExit,
    PendingCallsLimitExceeded,
    WorkerExit,
)
from phalanx.model.ids import INDEX_BITS, ActorID
from phalanx.model.options import check_actor_options, check_method_options, required_resources
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.objects.serialization import blame, dumps_definition
from phalanx.objects.streams import ObjectRefGenerator
from phalanx.owner.actors import ActorClient, PendingCall
from phalanx.worker.context import current

T = TypeVar("T")

_BUILT_IN = ("__ray_ready__", "__ray_call__", "__ray_terminate__")


class MethodShape(msgspec.Struct, frozen=True, array_like=True):
    """One method as a handle knows it."""

    arity: Arity
    returns: int = 1
    max_task_retries: int | None = None
    retries_exceptions: bool = False
    backpressure: int = -1


class ActorShape(msgspec.Struct, frozen=True, array_like=True):
    """An actor as its handles know it; travels with them and lies in the control store."""

    class_name: str
    methods: dict[str, MethodShape]
    max_task_retries: int
    max_pending_calls: int
    out_of_order: bool


_ANY = Arity((), 0, (), (), True, True)


def method(*args: Any, **options: Any) -> Callable[[T], T]:
    """Set options of an actor's method: num_returns, concurrency_group, max_task_retries, ..."""
    if args or not options:
        raise ValueError(
            "The @phalanx.method decorator takes keyword arguments only, at least one: "
            "@phalanx.method(num_returns=2)."
        )
    check_method_options(options)

    def mark(function: T) -> T:
        function.__phalanx_method__ = options  # type: ignore[attr-defined]
        return function

    return mark


class ActorClass(Generic[T]):
    """A class whose instances live in processes of their own: `A.remote(...)` gives a handle."""

    def __init__(self, cls: type[T], options: dict[str, Any]) -> None:
        check_actor_options(options)
        self._cls = cls
        self._options = options
        self._name = cls.__name__
        self._definition: tuple[bytes, bytes] | None = None
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__
        self._methods = _methods_of(cls)
        self._is_async = any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
            for _, f in inspect.getmembers(cls, inspect.isfunction)
        )
        own_init = inspect.getattr_static(cls, "__init__")
        self._init_arity = (
            arity_of(own_init, skip_first=True) if own_init is not object.__init__ else None
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actors cannot be instantiated directly. Instead of '{self._name}()', use "
            f"'{self._name}.remote()'."
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise TypeError(
            f"Attempted to define a subclass of the actor class {self._name}. Inherit from the "
            "plain class, and decorate the subclass with @phalanx.remote."
        )

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Start an actor; returns its handle at once."""
        return self._create(self._options, args, kwargs)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> ActorHandle[T]:
        return self._create({**self._options, **options}, tuple(args or ()), dict(kwargs or {}))

    def options(self, **options: Any) -> OptionedActorClass[T]:
        """The same class with other options for actors made through what this returns."""
        merged = {**self._options, **options}
        check_actor_options(options | _together(merged, options), in_options=True)
        return OptionedActorClass(self, merged)

    def gang(
        self,
        members: int,
        *,
        min_members: int | None = None,
        queue: str | None = None,
        priority: int | None = None,
        topology: str | None = None,
        ports: int = 1,
        grace_s: float = DEFAULT_GRACE_S,
    ) -> GangedActorClass:
        """A gang of these actors: `A.gang(4).remote(...)` makes all of them or none.

        `min_members` (default: all) must have places for any to start. `topology` "node" (or
        "nvlink") puts all on one node, "rack" on nodes with one value of the label `rack`.
        `ports`: so many are free on every node of the gang. `grace_s`: seconds between SIGTERM
        and the end when it is preempted.
        """
        gang = GangOptions(
            members=members,
            min_members=min_members,
            queue=queue,
            priority=priority,
            topology=topology,
            ports=ports,
            grace_s=grace_s,
        )
        return GangedActorClass(self, self._options, gang)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: see RemoteFunction.bind."""
        raise NotImplementedError("bind() belongs to compiled graphs, which Phalanx does not have.")

    def _create(
        self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ActorHandle[T]:
        if self._init_arity is not None:
            self._init_arity.check(f"{self._name}.__init__", args, kwargs)
        elif args or kwargs:
            raise TypeError(f"too many positional arguments: {self._name}() takes none.")
        engine = engine_or_start()
        runtime = engine.runtime
        key, data = self._define()
        payload, inputs, pins = pack_arguments(runtime, f"{self._name}.__init__", args, kwargs)
        explicit = any(
            options.get(k) is not None
            for k in ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type")
        )
        # As Ray: nothing said means one CPU to be placed and none to be held.
        place = required_resources(options, default_cpus=1)
        hold = required_resources(options, default_cpus=1 if explicit else 0)
        concurrency = options.get("max_concurrency") or (1000 if self._is_async else 1)
        groups = dict(options.get("concurrency_groups") or {})
        is_threaded = self._is_async or concurrency > 1 or bool(groups)
        out_of_order = options.get("allow_out_of_order_execution")
        shape = ActorShape(
            self._name,
            self._methods,
            options.get("max_task_retries") or 0,
            options.get("max_pending_calls") or -1,
            is_threaded if out_of_order is None else out_of_order,
        )
        creation = Creation(
            key,
            data,
            self._name,
            payload,
            [],
            concurrency,
            groups,
            self._is_async,
            shape.out_of_order,
        )
        strategy = strategy_of(options, place)
        name = options.get("name") or ""
        fields: dict[str, Any] = {
            "actor": os.urandom(12) + runtime.process_id[12:],
            "class_name": self._name,
            "name": name,
            "namespace": options.get("namespace") or engine.namespace,
            "detached": options.get("lifetime") == "detached",
            "max_restarts": options.get("max_restarts") or 0,
            "place": place,
            "hold": hold,
            "environment": environment_of(engine, options),
            "strategy": strategy,
            "priority": engine.priority if (own := options.get("priority")) is None else own,
            "handle": msgspec.msgpack.encode(shape),
            "get_if_exists": bool(options.get("get_if_exists")),
        }
        client, ref, answer = runtime.calls.create(creation, inputs, pins, fields)
        if answer.get("existed"):
            shape = msgspec.msgpack.decode(answer["handle"], type=ActorShape)
        return ActorHandle(client, shape, ref)

    def _define(self) -> tuple[bytes, bytes]:
        if self._definition is None:
            try:
                data = dumps_definition(self._cls)
            except Exception as error:
                raise TypeError(
                    f"The actor class {self._name} cannot be sent to workers: "
                    f"{blame(self._cls, error)}"
                ) from error
            self._definition = (hashlib.sha256(data).digest()[:12], data)
        return self._definition

    def __reduce__(self) -> Any:
        return (ActorClass, (self._cls, self._options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._cls, name)


class OptionedActorClass(Generic[T]):
    """An actor class with options of its own."""

    def __init__(self, actor_class: ActorClass[T], options: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = options

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle[T]:
        """Start an actor with these options."""
        return self._actor_class._create(self._options, args, kwargs)

    def gang(self, members: int, **options: Any) -> GangedActorClass:
        """See ActorClass.gang."""
        gang = GangOptions(members=members, **options)
        return GangedActorClass(self._actor_class, self._options, gang)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """See RemoteFunction.bind."""
        return self._actor_class.bind(*args, **kwargs)


class ActorMethod:
    """One method of one actor. Holds the actor, not the handle it was taken from."""

    __slots__ = ("_client", "_name", "_options", "_ref", "_shape", "_whole")

    def __init__(
        self,
        client: ActorClient,
        ref: ObjectRef[Any] | None,
        name: str,
        shape: MethodShape,
        whole: ActorShape,
        options: dict[str, Any] | None = None,
    ) -> None:
        self._client = client
        self._ref = ref
        self._name = name
        self._shape = shape
        self._whole = whole
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor methods cannot be called directly. Instead of running "
            f"'object.{self._name}()', try 'object.{self._name}.remote()'."
        )

    def options(self, **options: Any) -> ActorMethod:
        """The same method with other options."""
        check_method_options(options)
        return ActorMethod(self._client, self._ref, self._name, self._shape, self._whole, options)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: see RemoteFunction.bind."""
        raise NotImplementedError("bind() belongs to compiled graphs, which Phalanx does not have.")

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; a reference, a list of them, or a generator of them."""
        engine = engine_or_start()
        runtime = engine.runtime
        client = self._client
        shape = self._shape
        if client.effects is not runtime.calls:
            raise ActorHandleNotFoundError(
                f"This handle is of an actor of an earlier session ({self._whole.class_name}), "
                "which ended with it. Make the actor again."
            )
        shape.arity.check(self._name, args, kwargs)
        limit = self._whole.max_pending_calls
        if 0 < limit <= client.pending:
            raise PendingCallsLimitExceeded(
                f"The actor {self._whole.class_name} already has {client.pending} pending calls "
                f"from this handle; max_pending_calls={limit}. Wait for some of them first."
            )
        payload, inputs, pins = pack_arguments(runtime, self._name, args, kwargs)
        returns, group, retries, exceptions, backpressure = self._resolved()
        sequence = runtime.next_sequence()
        base = sequence << INDEX_BITS
        me = runtime.process_id
        count = 1 if returns in (1, -2) else max(returns, 0)
        refs = [make_ref(me, base + i) for i in range(1, count + 1)]
        call = PendingCall(
            sequence, client, self._name, payload, inputs, pins, refs, returns, retries, group
        )
        call.keep = self._ref
        call.retry_exceptions = exceptions
        call.backpressure = backpressure
        for ref in refs:
            ref._task = sequence
        if returns < 0:
            call.stream = runtime.calls.new_stream(call)
        context = current.get()
        parent = None if context is None else (context.owner, context.number)
        runtime.calls.submit(call, parent)
        if returns in (1, -2):
            return refs[0]
        if returns == -1:
            return ObjectRefGenerator(call.stream)
        return None if returns == 0 else refs

    def _resolved(self) -> tuple[int, str, int, Any, int]:
        """(returns, concurrency group, retries, exceptions to retry, back-pressure)."""
        shape = self._shape
        retries = shape.max_task_retries
        if retries is None:
            retries = self._whole.max_task_retries
        options = self._options
        if not options:
            return shape.returns, "", retries, shape.retries_exceptions, shape.backpressure
        returns = options.get("num_returns")
        return (
            shape.returns if returns is None else _count_of(returns),
            options.get("concurrency_group") or "",
            options.get("max_task_retries", retries),
            options.get("retry_exceptions", shape.retries_exceptions),
            options.get("_generator_backpressure_num_objects", shape.backpressure),
        )


class ActorHandle(Generic[T]):
    """A handle of a living actor: `handle.method.remote(...)`. May be passed around."""

    _client: ActorClient
    _shape: ActorShape
    _ref: ObjectRef[Any] | None

    def __init__(self, client: ActorClient, shape: ActorShape, ref: ObjectRef[Any] | None) -> None:
        self.__dict__["_client"] = client
        self.__dict__["_shape"] = shape
        self.__dict__["_ref"] = ref
        client.name = client.name or shape.class_name
        client.out_of_order = shape.out_of_order

    @property
    def _actor_id(self) -> ActorID:
        return ActorID(self._client.actor)

    @property
    def _ray_actor_id(self) -> ActorID:
        return self._actor_id

    def __getattr__(self, name: str) -> ActorMethod:
        shape = self._shape.methods.get(name)
        if shape is None:
            if name not in _BUILT_IN:
                raise AttributeError(
                    f"The actor class {self._shape.class_name} has no method {name!r}."
                )
            shape = MethodShape(_ANY)
        found = ActorMethod(self._client, self._ref, name, shape, self._shape)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return [*self._shape.methods, *_BUILT_IN]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._client.actor == self._client.actor

    def __hash__(self) -> int:
        return hash(self._client.actor)

    def __repr__(self) -> str:
        return f"Actor({self._shape.class_name}, {self._client.actor.hex()})"

    def __reduce__(self) -> Any:
        return (
            _rebuild_handle,
            (self._client.actor, msgspec.msgpack.encode(self._shape), self._ref),
        )


def _rebuild_handle(actor: bytes, shape: bytes, ref: ObjectRef[Any] | None) -> ActorHandle[Any]:
    return handle_of(engine_or_start(), actor, msgspec.msgpack.decode(shape, type=ActorShape), ref)


def handle_of(
    engine: EmbeddedEngine, actor: bytes, shape: ActorShape, ref: ObjectRef[Any] | None
) -> ActorHandle[Any]:
    """A handle of an actor that this process learns of."""
    with engine.runtime.lock:
        client = engine.runtime.calls.client(actor)
    return ActorHandle(client, shape, ref)


def exit_actor() -> None:
    """End the actor whose method calls this, without a restart. Never returns."""
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


def _count_of(returns: Any) -> int:
    count: int = {"streaming": -1, "dynamic": -2}.get(returns, returns)
    return count


def _methods_of(cls: type) -> dict[str, MethodShape]:
    methods = {}
    for name, member in inspect.getmembers(cls):
        raw = inspect.getattr_static(cls, name)
        is_plain = isinstance(raw, staticmethod | classmethod)
        function = raw.__func__ if is_plain else member
        if not inspect.isroutine(function) or not callable(member):
            continue
        if name.startswith("__") and name not in ("__call__",) and not _is_own(cls, name):
            continue
        options = getattr(function, "__phalanx_method__", {})
        returns = options.get("num_returns")
        if returns is None:
            streams = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
            returns = "streaming" if streams else 1
        exceptions = options.get("retry_exceptions") or False
        methods[name] = MethodShape(
            arity_of(function, skip_first=not isinstance(raw, staticmethod)),
            _count_of(returns),
            options.get("max_task_retries"),
            bool(exceptions),
            options.get("_generator_backpressure_num_objects") or -1,
        )
    return methods


def _is_own(cls: type, name: str) -> bool:
    return any(name in base.__dict__ for base in cls.__mro__ if base is not object)


def _together(merged: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Options that are only checked together with others given before."""
    wanted = {}
    if options.get("get_if_exists") and merged.get("name"):
        wanted["name"] = merged["name"]
    if options.get("max_task_retries") and merged.get("max_restarts"):
        wanted["max_restarts"] = merged["max_restarts"]
    return wanted
