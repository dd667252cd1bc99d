"""Actor classes, which `@phalanx.remote` makes from classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Generic, TypeAlias, TypeVar, overload

from typing_extensions import ParamSpec

from phalanx.api.call_types import ManyMethodDecorator, Method, MethodDecorator
from phalanx.api.gangs import DEFAULT_GRACE_S, GangedActorClass, GangOptions
from phalanx.api.job_config import with_lifetime
from phalanx.api.labels import check_labels
from phalanx.api.session import check_queue, engine_or_start
from phalanx.model.options import check_actor_options, check_method_options, check_place
from phalanx.objects.dag import ClassNode
from phalanx.objects.handle import ActorHandle
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine.definitions import ActorDefinition

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P", default=...)

ActorProxy: TypeAlias = ActorHandle[T] | type[T]
"""An actor handle, with the types of the methods that its class marks with `@method`."""


@overload
def method(function: Callable[Concatenate[Any, P], R], /) -> Method[P, R]: ...
@overload
def method(*, num_returns: int | str, **options: Any) -> ManyMethodDecorator: ...
@overload
def method(**options: Any) -> MethodDecorator: ...
def method(*args: Any, **options: Any) -> Any:
    """Mark an actor's method for type checkers (`@method`), or set options of the method.

    The options are `num_returns`, `concurrency_group`, `max_task_retries` and the others that
    `ActorMethod.options` takes. Raises ValueError unless the argument is one function, or keyword
    options alone. Raises ValueError or TypeError for an option or a value that is not allowed.

    Example:
        @phalanx.remote
        class Splitter:
            @phalanx.method(num_returns=2)
            def halves(self, text: str) -> tuple[str, str]:
                return text[: len(text) // 2], text[len(text) // 2 :]

        first, second = Splitter.remote().halves.remote("abcd")
    """
    if len(args) == 1 and not options and inspect.isfunction(args[0]):
        return args[0]
    if args or not options:
        raise ValueError(
            "The @phalanx.method decorator takes a function, or keyword arguments only: "
            "@phalanx.method or @phalanx.method(num_returns=2)."
        )
    check_method_options(options)

    def mark(function: T) -> T:
        function.__phalanx_method__ = options  # type: ignore[attr-defined]
        return function

    return mark


def typed(handle: ActorHandle[T], /) -> ActorProxy[T]:
    """Return the same handle, with the types of the methods that its class marks with `@method`.

    Only type checkers see a difference.

    Example:
        counter = typed(Counter.remote())
        ref = counter.increase.remote()  # an ObjectRef[int], when `increase` is marked
    """
    return handle


class ActorClassInheritanceException(TypeError):
    """Raised when a class is derived from an actor class."""


class ActorClass(Generic[T, P]):
    """A class whose instances are actors, each in a process of its own.

    Example:
        @phalanx.remote
        class Counter:
            def __init__(self, start: int = 0) -> None:
                self.value = start

            def increase(self) -> int:
                self.value += 1
                return self.value

        counter = Counter.remote(start=5)
        assert phalanx.get(counter.increase.remote()) == 6
    """

    def __init__(self, cls: type[T], options: dict[str, Any]) -> None:
        check_actor_options(options)
        check_place(options)
        check_labels(options)
        _check_groups(cls, options)
        self._definition = ActorDefinition(cls)
        self._options = options
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__doc__ = cls.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actors cannot be instantiated directly. Instead of '{self._definition.name}()', use "
            f"'{self._definition.name}.remote()'."
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise ActorClassInheritanceException(
            "Inheriting from actor classes is not currently supported. Attempted to define a "
            f"subclass of the actor class {self._definition.name}: inherit from the plain class, "
            "and decorate the subclass with @phalanx.remote."
        )

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]:
        """Start an actor and return its handle immediately.

        The arguments go to the constructor. Raises TypeError when the arguments do not fit the
        constructor, and QueueUnavailableError when the options name a queue that takes no work.
        """
        return self._create(self._options, args, kwargs)

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> ActorHandle[T]:
        merged = {**self._options, **options}
        check_actor_options(merged)
        check_labels(options)
        check_place(merged)
        return self._create(merged, tuple(args or ()), dict(kwargs or {}))

    def options(self, **options: Any) -> OptionedActorClass[T, P]:
        """Return the same class with other options for the actors started through the returned
        class.

        Raises ValueError or TypeError for an option or a value that is not allowed.

        Example:
            counter = Counter.options(name="hits", num_cpus=2).remote()
        """
        merged = {**self._options, **options}
        check_actor_options(options | _together(merged, options), in_options=True)
        check_labels(options)
        check_place(merged)
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
        """Return a class whose `remote` starts these actors as a gang: all of them or none.

        `min_members` (default: all) is the number of members that must be placed before any starts.
        `topology` "node" (or "nvlink") places all members on one node; "rack" places them on nodes
        with the same value of the label `rack`. `ports` is the number of ports that are kept free
        on every node of the gang. `grace_s` is the time in seconds between SIGTERM and the end when
        the gang is preempted. Raises ValueError or TypeError for a value that is not allowed.

        Example:
            actors = Trainer.options(num_gpus=1).gang(4, topology="node").remote(lr=0.1)
            phalanx.get([actor.train.remote() for actor in actors])
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
        return GangedActorClass(self._definition, self._options, gang)

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassNode:
        """Return the node of a graph of calls that starts an actor when the graph is executed (see
        `objects.dag`).
        """
        return ClassNode(self, args, kwargs)

    def _create(
        self, options: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ActorHandle[T]:
        self._definition.check_arguments(args, kwargs)
        if options.get("allow_out_of_order_execution") is False:
            self._check_in_order(options)
        engine = engine_or_start()
        check_queue(engine, options)
        options = with_lifetime(options)
        handle: ActorHandle[T] = engine.create_actor(self._definition, options, args, kwargs)
        return handle

    def _check_in_order(self, options: dict[str, Any]) -> None:
        kind = "async" if self._definition.is_async else "multi-threaded"
        if kind == "async" or (options.get("max_concurrency") or 1) > 1:
            raise ValueError(
                f"The calls of an {kind} actor run side by side: "
                "allow_out_of_order_execution=False cannot be kept."
            )

    def __reduce__(self) -> Any:
        return (ActorClass, (self._definition.cls, self._options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._definition.cls, name)

    def __dir__(self) -> list[str]:
        # An editor completes only these names. Under a dialect, they are the names of its system.
        spoken = dialect.current()
        hidden = frozenset[str]() if spoken is None else spoken.hidden_methods
        return sorted({*super().__dir__(), *dir(self._definition.cls)} - hidden)


class OptionedActorClass(Generic[T, P]):
    """An actor class with other options, as returned by `ActorClass.options`."""

    def __init__(self, actor_class: ActorClass[T, P], options: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = options

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]:
        """Start an actor with these options."""
        return self._actor_class._create(self._options, args, kwargs)

    def gang(self, members: int, **options: Any) -> GangedActorClass:
        """Return a class whose `remote` starts a gang of these actors, with the options of
        `ActorClass.gang`."""
        gang = GangOptions(members=members, **options)
        return GangedActorClass(self._actor_class._definition, self._options, gang)

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassNode:
        """Return the node of a graph of calls that starts an actor when the graph is executed (see
        `objects.dag`).
        """
        return ClassNode(self, args, kwargs)


def exit_actor() -> None:
    """End the actor whose method calls this function, without a restart. The function does not
    return.

    Example:
        @phalanx.remote
        class Worker:
            def stop(self) -> None:
                phalanx.actor.exit_actor()
    """
    engine_or_start().exit_actor()


def _check_groups(cls: type, options: dict[str, Any]) -> None:
    """Raise ValueError for a method in a concurrency group that its class does not declare."""
    groups = options.get("concurrency_groups") or {}
    for name in dir(cls):
        declared = getattr(getattr(cls, name, None), "__phalanx_method__", None) or {}
        group = declared.get("concurrency_group")
        if group and group not in groups:
            known = ", ".join(sorted(groups)) or "none"
            raise ValueError(
                f"{cls.__qualname__}.{name} uses the concurrency group {group!r}, but its class "
                f"declares: {known}. "
                f"Declare it: @phalanx.remote(concurrency_groups={{{group!r}: 1}})."
            )


def _together(merged: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier options that are checked together with the new `options`. `merged`: all
    options, earlier and new ones.

    For example, `get_if_exists` is valid only together with a name, which an earlier call may have
    given.
    """
    wanted = {}
    if options.get("get_if_exists") and merged.get("name"):
        wanted["name"] = merged["name"]
    if options.get("max_task_retries") and merged.get("max_restarts"):
        wanted["max_restarts"] = merged["max_restarts"]
    return wanted
