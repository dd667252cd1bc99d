"""Handles of actors, and their methods. A call goes straight to the actor's worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec

from phalanx.errors import ActorHandleNotFoundError, PendingCallsLimitExceeded
from phalanx.model.ids import ActorID
from phalanx.model.lifecycle import ALIVE, DEAD, PENDING_CREATION, RESTARTING
from phalanx.model.nearest import nearest
from phalanx.model.options import check_method_options
from phalanx.model.raw_bytes import encoded
from phalanx.model.signatures import ANYTHING, ActorShape, MethodShape, count_of
from phalanx.objects.handle import ActorHandle, ActorMethod
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import CallArguments, are_plain
from phalanx.objects.streams import ObjectRefGenerator, Stream
from phalanx.owner.actors.calls import Calls
from phalanx.owner.actors.client import ActorClient, CallOptions
from phalanx.runtime.driver.arguments import pack_arguments, shareable
from phalanx.runtime.driver.reference_hooks import ReferenceHooks
from phalanx.runtime.driver.values import Packed
from phalanx.runtime.engine import tracing
from phalanx.worker.context import current

T = TypeVar("T")

_BUILT_IN = ("__ray_ready__", "__ray_call__", "__ray_terminate__")


class EmbeddedMethod(ActorMethod):
    """A method of an actor. It keeps the actor alive, but not the handle from which it came."""

    __slots__ = ("_client", "_exact", "_name", "_options", "_ref", "_settled", "_shape", "_whole")

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
        self._exact = shape.arity.exact
        self._settled: CallOptions | None = None
        """The options that all calls of the method share; None before the first call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor methods cannot be called directly. Instead of running "
            f"'object.{self._name}()', try 'object.{self._name}.remote()'."
        )

    def options(self, **options: Any) -> EmbeddedMethod:
        """Return the method with other options, which apply to calls made through the returned
        method.
        """
        check_method_options(options)
        return type(self)(self._client, self._ref, self._name, self._shape, self._whole, options)

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a call of the method. Returns a reference, a list of references, or a
        generator.
        """
        client = self._client
        caller = process.caller
        if caller is None or client.effects is not caller.calls:
            raise ActorHandleNotFoundError(
                f"This handle is of an actor of an earlier session ({self._whole.class_name}). It "
                "might be dead or it's from a different cluster: make the actor again."
            )
        if kwargs or len(args) != self._exact:
            self._shape.arity.check(self._name, args, kwargs)
        limit = self._whole.max_pending_calls
        if 0 < limit <= client.pending:
            raise PendingCallsLimitExceeded(
                f"The actor {self._whole.class_name} already has {client.pending} pending calls "
                f"from this handle; max_pending_calls={limit}. Wait for some of them first."
            )
        options = self._settled
        if options is None:
            options = self._settled = self._settle()
        context = current.get()
        parent = None if context is None else (context.owner, context.number)
        calls, name, ref = caller.calls, self._name, self._ref
        returns = options.returns
        packed: CallArguments | None
        is_plain = returns == 1 and not kwargs and tracing.active is None
        if is_plain and (not args or are_plain(args)):
            packed = args
        else:
            payload, inputs, pins = pack_arguments(caller.pack, name, args, kwargs)
            packed = shareable(payload, inputs, pins) if returns == 1 else None
        if packed is not None:
            with caller.lock:
                result = calls.call(client, name, packed, options, ref, parent)
            if calls.growing:
                caller.kick()
            return result
        stream = Stream(caller.me) if returns < 0 else None
        call = calls.new(client, name, payload, inputs, pins, options, ref)
        with caller.lock:
            calls.submit(call, parent, stream)
        refs = call.refs
        if returns in (1, -2):
            return refs[0]
        if stream is not None:
            return ObjectRefGenerator(stream, caller.hooks)
        return None if returns == 0 else list(refs)

    def __reduce__(self) -> Any:
        handle: EmbeddedHandle[Any] = EmbeddedHandle(self._client, self._whole, self._ref)
        return _rebuild_method, (handle, self._name, self._options)

    def _settle(self) -> CallOptions:
        """Return the options that apply to all calls of this method. They come from `options()`,
        then from the method, then from its class.
        """
        shape, whole, options = self._shape, self._whole, self._options or {}
        returns = options.get("num_returns")
        retries = shape.max_task_retries
        if retries is None:
            retries = whole.max_task_retries
        is_listed = options.get("enable_task_events")
        if is_listed is None:
            is_listed = whole.task_events if shape.task_events is None else shape.task_events
        return CallOptions(
            returns=shape.returns if returns is None else count_of(returns),
            group=options.get("concurrency_group") or "",
            retries=options.get("max_task_retries", retries),
            retry_exceptions=options.get("retry_exceptions", shape.retries_exceptions),
            backpressure=options.get("_generator_backpressure_num_objects", shape.backpressure),
            name=options.get("name") or "",
            is_listed=is_listed,
        )


class DecoratedMethod(EmbeddedMethod):
    """A method for which the actor's class gives a decorator. The decorator takes a function of
    (args, kwargs) that submits a call, and returns another such function.
    """

    __slots__ = ()

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Submit a call of the method through the decorator."""
        decorate = pickle.loads(self._whole.decorators[self._name])  # noqa: S301  (from its owner)
        call = super().remote
        return decorate(lambda args, kwargs: call(*args, **kwargs))(args, kwargs)


_STATE_NUMBERS = {PENDING_CREATION: 1, ALIVE: 2, RESTARTING: 3, DEAD: 4}


class EmbeddedHandle(ActorHandle[T]):
    """A handle of an actor of the runtime."""

    _client: ActorClient
    _shape: ActorShape
    _ref: ObjectRef[Any] | None

    def __init__(self, client: ActorClient, shape: ActorShape, ref: ObjectRef[Any] | None) -> None:
        self.__dict__["_client"] = client
        self.__dict__["_shape"] = shape
        self.__dict__["_ref"] = ref
        client.name = client.name or shape.class_name
        client.out_of_order = shape.out_of_order
        client.concurrency = shape.concurrency

    @property
    def _actor_id(self) -> ActorID:
        return ActorID(self._client.actor)

    @property
    def _ray_actor_id(self) -> ActorID:
        return self._actor_id

    def _get_local_state(self) -> int | None:
        """Return Ray's number for the actor's state, as this process knows it. Ray Data calls
        this.
        """
        return _STATE_NUMBERS.get(self._client.state)

    def __getattr__(self, name: str) -> EmbeddedMethod:
        shape = self._shape.methods.get(name)
        if shape is None:
            if name not in _BUILT_IN:
                near = "" if name.startswith("_") else nearest(name, self._shape.methods)
                raise AttributeError(
                    f"The actor class {self._shape.class_name} has no method {name!r}{near}"
                )
            shape = MethodShape(ANYTHING)
        kind = DecoratedMethod if name in self._shape.decorators else EmbeddedMethod
        found = kind(self._client, self._ref, name, shape, self._shape)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return sorted({"__init__", *self._shape.methods, *_BUILT_IN})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EmbeddedHandle) and other._client.actor == self._client.actor

    def __hash__(self) -> int:
        return hash(self._client.actor)

    def __repr__(self) -> str:
        return f"Actor({self._shape.class_name}, {self._client.actor.hex()})"

    def __reduce__(self) -> Any:
        return (
            _rebuild_handle,
            (self._client.actor, encoded(msgspec.msgpack.encode, self._shape), self._ref),
        )


class Caller:
    """Calls methods of actors, for any thread of this process."""

    def __init__(
        self,
        me: bytes,
        lock: AbstractContextManager[Any],
        calls: Calls,
        pack: Callable[[Any], Packed],
        hooks: ReferenceHooks,
        kick: Callable[[], None],
    ) -> None:
        """`kick` makes some thread send posted messages soon."""
        self.kick = kick
        self.me = me
        self.lock = lock
        self.calls = calls
        self.pack = pack
        self.hooks = hooks

    def handle_of(
        self, actor: bytes, shape: ActorShape, ref: ObjectRef[Any] | None
    ) -> EmbeddedHandle[Any]:
        """Return a handle of an actor whose id has come to this process."""
        with self.lock:
            client = self.calls.client(actor)
        return EmbeddedHandle(client, shape, ref)


class _Process:
    """Holds this process's Caller, through which handles call methods. `caller` is None while the
    process has no session.
    """

    caller: Caller | None = None


process = _Process()


def _rebuild_method(
    handle: EmbeddedHandle[Any], name: str, options: dict[str, Any] | None
) -> EmbeddedMethod:
    method: EmbeddedMethod = getattr(handle, name)
    return method.options(**options) if options else method


def _rebuild_handle(actor: bytes, shape: bytes, ref: ObjectRef[Any] | None) -> EmbeddedHandle[Any]:
    if process.caller is None:
        raise RuntimeError("Phalanx is not running: call phalanx.init() first.")
    return process.caller.handle_of(actor, msgspec.msgpack.decode(shape, type=ActorShape), ref)
