"""Handles of actors and their methods, as programs see them; each engine has its own."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from phalanx.objects.dag import FunctionNode

T = TypeVar("T")


class ActorMethod(metaclass=ABCMeta):
    """One method of one actor."""

    __slots__ = ()

    @abstractmethod
    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method. Returns a reference, a list of references, or a generator of
        references.
        """

    @abstractmethod
    def options(self, **options: Any) -> ActorMethod:
        """Return the same method with other options."""

    def _remote(self, args: Sequence[Any] | None = None, kwargs: Any = None, **options: Any) -> Any:
        """Call the method with options. This is Ray's older way, which programs still use."""
        target = self.options(**options) if options else self
        return target.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> FunctionNode:
        """Return a call in a graph; see `objects.dag`."""
        return FunctionNode(self, args, kwargs)


class ActorHandle(Generic[T], metaclass=ABCMeta):
    """A handle of a living actor: `handle.method.remote(...)`. May be passed around.

    Abstract for the same reason as ObjectRef.
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
