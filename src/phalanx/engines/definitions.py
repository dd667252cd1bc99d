"""What the decorators know of functions and classes, as engines are given it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from phalanx.model.signatures import MethodShape, arity_of, methods_of

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
    """An actor class. One object for all its options: engines keep what they made of it."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.methods: dict[str, MethodShape] = methods_of(cls)
        self.is_async = any(
            inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)
            for _, f in inspect.getmembers(cls, inspect.isfunction)
        )
        self.decorators = {
            name: decorate
            for name in self.methods
            if (decorate := getattr(getattr(cls, name), INVOCATION_DECORATOR, None)) is not None
        }
        """By method, what the class wraps its `remote` in."""
        own_init = inspect.getattr_static(cls, "__init__")
        self.init_arity = (
            arity_of(own_init, skip_first=True) if own_init is not object.__init__ else None
        )
        self.record: tuple[bytes, bytes] | None = None
        """The form in which the embedded engine sends it, from its first use on."""

    def check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError when the constructor would not take them."""
        if self.init_arity is not None:
            self.init_arity.check(f"{self.name}.__init__", args, kwargs)
        elif args or kwargs:
            raise TypeError(f"too many positional arguments: {self.name}() takes none.")
