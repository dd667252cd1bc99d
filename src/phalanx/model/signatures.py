"""The parameters and results of functions and methods, in a form small enough for the handles of
actors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec


class Arity(msgspec.Struct, frozen=True, array_like=True):
    """The parameters of a function, in a form small enough for the handles of actors."""

    names: tuple[str, ...]
    required: int
    keyword_only: tuple[str, ...]
    required_keywords: tuple[str, ...]
    takes_more: bool
    takes_any_keyword: bool
    positional_only: int = 0

    @property
    def exact(self) -> int:
        """The number of the function's positional parameters, if a call without keywords must give
        all of them; otherwise -1.
        """
        is_exact = self.required == len(self.names) and not self.required_keywords
        return self.required if is_exact else -1

    def check(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError if the function `name` cannot be called with these arguments."""
        given = len(args)
        if given > len(self.names) and not self.takes_more:
            raise TypeError(
                f"too many positional arguments: {name}() takes at most {len(self.names)}, "
                f"got {given}."
            )
        if not kwargs:
            if given < self.required or self.required_keywords:
                self._missing(name, set(self.names[:given]))
            return
        by_position = set(self.names[:given])
        for key in kwargs:
            if key in by_position and key not in self.names[: self.positional_only]:
                raise TypeError(f"multiple values for argument {key!r} of {name}().")
            known = key in self.names[self.positional_only :] or key in self.keyword_only
            if not known and not self.takes_any_keyword:
                raise TypeError(f"got an unexpected keyword argument {key!r} for {name}().")
        self._missing(name, by_position | set(kwargs))

    def _missing(self, name: str, given: set[str]) -> None:
        for wanted in (*self.names[: self.required], *self.required_keywords):
            if wanted not in given:
                raise TypeError(f"missing a required argument: {wanted!r} of {name}().")


ANYTHING = Arity((), 0, (), (), True, True)


def arity_of(function: Callable[..., Any], skip_first: bool = False) -> Arity:
    """Return the parameters of a function; with `skip_first`, of a method without its `self`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return ANYTHING
    if skip_first:
        parameters = parameters[1:]
    kinds = inspect.Parameter
    by_position = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    keywords = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    return Arity(
        tuple(p.name for p in by_position),
        sum(p.default is kinds.empty for p in by_position),
        tuple(p.name for p in keywords),
        tuple(p.name for p in keywords if p.default is kinds.empty),
        any(p.kind is kinds.VAR_POSITIONAL for p in parameters),
        any(p.kind is kinds.VAR_KEYWORD for p in parameters),
        sum(p.kind is kinds.POSITIONAL_ONLY for p in parameters),
    )


class MethodShape(msgspec.Struct, frozen=True, array_like=True):
    """The description of one method, as the handles of an actor carry it."""

    arity: Arity
    returns: int = 1
    max_task_retries: int | None = None
    retries_exceptions: bool = False
    backpressure: int = -1
    task_events: bool | None = None
    """Whether listings show calls of the method; None if the actor's `task_events` decides."""


class ActorShape(msgspec.Struct, frozen=True, array_like=True):
    """The description of an actor. Each handle of the actor carries it, and the head keeps a
    copy.
    """

    class_name: str
    methods: dict[str, MethodShape]
    max_task_retries: int
    max_pending_calls: int
    out_of_order: bool
    decorators: dict[str, bytes] = {}
    """By method: the pickle of the function with which the actor's class wraps the `remote` of that
    method.
    """
    concurrency: int = 0
    """The number of the actor's calls that may run at the same time; 0 if its concurrency groups
    set the numbers.
    """
    task_events: bool = True
    """Whether listings show calls of the actor."""


def count_of(returns: Any) -> int:
    """Return `num_returns` as a number: "streaming" (a stream of references) becomes -1, and
    "dynamic" (one reference to a list of references) becomes -2.
    """
    count: int = {"streaming": -1, "dynamic": -2}.get(returns, returns)
    return count


def methods_of(cls: type) -> dict[str, MethodShape]:
    """Return the methods that handles of `cls` offer, by name."""
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
            count_of(returns),
            options.get("max_task_retries"),
            bool(exceptions),
            options.get("_generator_backpressure_num_objects") or -1,
            options.get("enable_task_events"),
        )
    return methods


def _is_own(cls: type, name: str) -> bool:
    return any(name in base.__dict__ for base in cls.__mro__ if base is not object)
