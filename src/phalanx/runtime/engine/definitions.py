"""What the decorators know of functions and classes, as engines are given it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from phalanx.model.signatures import Arity, MethodShape, arity_of, methods_of

INVOCATION_DECORATOR = "__ray_invocation_decorator__"
"""Ray's name for what a function or method wraps its own `remote` in."""


class FunctionDefinition:
    """A remote function. One object for all its options: engines keep what they made of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.arity = arity_of(function)
        self.record: Any = None
        """The form in which the embedded engine sends it, from its first use on."""


class ActorDefinition:
    """An actor class. One object for all its options: engines keep what they made of it.

    The class is looked at when it is first used: a class whose methods name its own remote class
    is still empty when that is unpickled.
    """

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.record: tuple[bytes, bytes] | None = None
        """The form in which the embedded engine sends it, from its first use on."""

    @cached_property
    def methods(self) -> dict[str, MethodShape]:
        """What callers may call, by name."""
        return methods_of(self.cls)

    @cached_property
    def is_async(self) -> bool:
        """Whether its calls run on an event loop."""
        return any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
            for _, f in inspect.getmembers(self.cls, inspect.isfunction)
        )

    @cached_property
    def decorators(self) -> dict[str, Any]:
        """By method, what the class wraps its `remote` in."""
        found = {
            name: getattr(getattr(self.cls, name), INVOCATION_DECORATOR, None)
            for name in self.methods
        }
        return {name: decorate for name, decorate in found.items() if decorate is not None}

    @cached_property
    def init_arity(self) -> Arity | None:
        """What the constructor takes; None when the class has none of its own."""
        own = inspect.getattr_static(self.cls, "__init__")
        return arity_of(own, skip_first=True) if own is not object.__init__ else None

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError when the constructor would not take them."""
        if self.init_arity is not None:
            self.init_arity.check(f"{self.name}.__init__", args, kwargs)
        elif args or kwargs:
            raise TypeError(f"too many positional arguments: {self.name}() takes none.")
