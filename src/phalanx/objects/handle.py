"""Handles of actors and their methods, as programs see them. Each engine has its own subclasses."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from phalanx.objects.dag import FunctionNode

T = TypeVar("T")


class ActorMethod(metaclass=ABCMeta):
    """A method of an actor, which programs call with `remote`."""

    __slots__ = ()

    @abstractmethod
    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method. Returns a reference, a list of references, or a generator of
        references.
        """

    @abstractmethod
    def options(self, **options: Any) -> ActorMethod:
        """Return the same method with these options."""

    def _remote(self, args: Sequence[Any] | None = None, kwargs: Any = None, **options: Any) -> Any:
        """Call the method with options. This is Ray's older way, which programs still use."""
        target = self.options(**options) if options else self
        return target.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return a call of the method in a graph (see `objects.dag`)."""
        return FunctionNode(self, args, kwargs)


class ActorHandle(Generic[T], metaclass=ABCMeta):
    """A handle of a living actor: `handle.method.remote(...)`. A handle may be an argument or a
    result of tasks.

    The class is abstract for the same reason as ObjectRef.
    """

    @property
    def _actor_id(self) -> Any:
        """The actor's id, under the name by which programs read it from Ray's handles. It is
        defined here so that mocks have it.
        """
        raise AttributeError("_actor_id")

    def __getattr__(self, name: str) -> ActorMethod:
        """Return a method of the actor's class."""
        raise AttributeError(name)
