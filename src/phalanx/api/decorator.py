"""The `remote` decorator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from phalanx.api.actors import ActorClass
from phalanx.api.call_types import ClassCallable
from phalanx.api.functions import RemoteFunction

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class RemoteDecorator(Protocol):
    """The type of `@remote(num_gpus=1)`: it makes a function remote, or a class an actor class."""

    @overload
    def __call__(self, function: ClassCallable[P, T], /) -> ActorClass[T, P]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> RemoteFunction[P, R]: ...


class ManyDecorator(Protocol):
    """The type of `@remote(num_returns=2)`: type checkers cannot know what such a call returns."""

    def __call__(self, function: Callable[P, Any], /) -> RemoteFunction[P, Any]: ...


@overload
def remote(function: ClassCallable[P, T], /) -> ActorClass[T, P]: ...  # type: ignore[overload-overlap]  # a class is callable too
@overload
def remote(function: type[T], /) -> ActorClass[T]: ...  # type: ignore[overload-overlap]
@overload
def remote(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(*, num_returns: int | str, **options: Any) -> ManyDecorator: ...
@overload
def remote(**options: Any) -> RemoteDecorator: ...
def remote(*args: Any, **options: Any) -> Any:
    """Make a function remote, or a class an actor class: `@remote` or `@remote(num_cpus=2)`.

    Raises TypeError for a target that is neither a function nor a class, and ValueError or
    TypeError for an option or a value that is not allowed.

    Example:
        @phalanx.remote(num_cpus=2, max_retries=3)
        def area(width: float, height: float) -> float:
            return width * height

        assert phalanx.get(area.remote(2, 3)) == 6
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _make(args[0], {})
    if args or not options:
        raise TypeError(
            "The @phalanx.remote decorator takes a function or class, or keyword arguments only: "
            "@phalanx.remote or @phalanx.remote(num_returns=2)."
        )

    def decorate(target: Any) -> Any:
        return _make(target, options)

    return decorate


def _make(target: Any, options: dict[str, Any]) -> Any:
    if inspect.isclass(target):
        return ActorClass(target, options)
    if inspect.isfunction(target):
        return RemoteFunction(target, options)
    if isinstance(target, RemoteFunction | ActorClass):
        raise TypeError(f"{target!r} is remote already.")
    raise TypeError(
        f"The @phalanx.remote decorator must be applied to a function or a class, got "
        f"{type(target).__name__}."
    )
