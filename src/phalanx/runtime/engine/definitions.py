"""Definitions of remote functions and classes, which decorators make and engines read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from phalanx.model.signatures import Arity, MethodShape, arity_of, methods_of

INVOCATION_DECORATOR = "__ray_invocation_decorator__"
"""The attribute in which a function or method holds a decorator of its `remote`. The name is
Ray's.
"""


class FunctionDefinition:
    """A remote function. One object represents the function with all its options, so that engines
    can keep what they derive from it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.arity = arity_of(function)
        self.exact = self.arity.exact
        self.record: Any = None
        """The function in the form in which the runtime sends it. It is set at the first use."""


class ActorDefinition:
    """An actor class. One object represents the class with all its options, so that engines can
    keep what they derive from it.

    The class is inspected at its first use. When the remote class is unpickled, the class may still
    be empty: this happens if its methods refer to their own remote class.
    """

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.record: tuple[bytes, bytes] | None = None
        """The class in the form in which the runtime sends it. It is set at the first use."""

    @cached_property
    def methods(self) -> dict[str, MethodShape]:
        """The methods that callers may call, by name."""
        return methods_of(self.cls)

    @cached_property
    def is_async(self) -> bool:
        """Whether the actor's calls run on an event loop."""
        return any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
            for _, f in inspect.getmembers(self.cls, inspect.isfunction)
        )

    @cached_property
    def decorators(self) -> dict[str, Any]:
        """The decorators that the class puts around the `remote` of its methods, by method."""
        found = {
            name: getattr(getattr(self.cls, name), INVOCATION_DECORATOR, None)
            for name in self.methods
        }
        return {name: decorate for name, decorate in found.items() if decorate is not None}

    @cached_property
    def init_arity(self) -> Arity | None:
        """The parameters of the constructor; None if the class has no constructor of its own."""
        own = inspect.getattr_static(self.cls, "__init__")
        return arity_of(own, skip_first=True) if own is not object.__init__ else None

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError when the arguments do not fit the constructor."""
        if self.init_arity is not None:
            self.init_arity.check(f"{self.name}.__init__", args, kwargs)
        elif args or kwargs:
            raise TypeError(f"too many positional arguments: {self.name}() takes none.")
