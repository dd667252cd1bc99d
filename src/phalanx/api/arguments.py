"""Arguments of remote calls: checked against the signature, references set apart, packed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.engines.embedded.client.runtime import Runtime
from phalanx.errors import PhalanxError
from phalanx.objects.reference import ObjectRef
from phalanx.objects.serialization import blame
from phalanx.protocol.messages import Payload


class Arity(msgspec.Struct, frozen=True, array_like=True):
    """What a signature takes, small enough to travel with a handle."""

    names: tuple[str, ...]
    required: int
    keyword_only: tuple[str, ...]
    required_keywords: tuple[str, ...]
    takes_more: bool
    takes_any_keyword: bool
    positional_only: int = 0

    def check(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise TypeError when a call would not fit."""
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


_ANYTHING = Arity((), 0, (), (), True, True)


def arity_of(function: Callable[..., Any], skip_first: bool = False) -> Arity:
    """The arity of a function; of a method without its `self` when `skip_first`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return _ANYTHING
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


Packed = tuple[Payload, "list[ObjectRef[Any]] | None", "list[Any] | None"]


def pack_arguments(
    runtime: Runtime, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Packed:
    """(payload, top-level references, what must live until the call ends).

    Raises TypeError that names the piece that cannot be pickled.
    """
    if not args and not kwargs:
        return b"", None, None
    places: list[int | str] | None = None
    inputs: list[ObjectRef[Any]] | None = None
    for i, value in enumerate(args):
        if type(value) is ObjectRef:
            if inputs is None or places is None:
                places, inputs, args = [], [], list(args)  # type: ignore[assignment]
            places.append(i)
            inputs.append(value)
            args[i] = None  # type: ignore[index]
    for key, value in kwargs.items():
        if type(value) is ObjectRef:
            if inputs is None or places is None:
                places, inputs = [], []
            places.append(key)
            inputs.append(value)
    if inputs is not None:
        kwargs = {k: None if type(v) is ObjectRef else v for k, v in kwargs.items()}
    parts = (args, kwargs) if inputs is None else (args, kwargs, places)
    try:
        payload, hold, refs = runtime.values.pack(parts)
    except PhalanxError:
        raise
    except Exception as error:
        found = blame({"args": list(args), "kwargs": kwargs}, error)
        raise TypeError(
            f"Could not serialize the arguments of {name}(): {found}. Pass what it is made of "
            "instead, or make it inside the task."
        ) from error
    if hold is None and refs is None:
        return payload, inputs, None
    if hold is not None:
        hold.seen = True  # the callee may keep what it maps: never write there again
    return payload, inputs, [hold, refs]
