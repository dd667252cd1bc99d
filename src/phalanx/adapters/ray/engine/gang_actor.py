"""Handles of the actors of gangs. Calls go through the program's hub, which knows each actor's
place.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import ray

from phalanx.model.ids import GangId, MemberId
from phalanx.model.nearest import nearest
from phalanx.model.options import check_method_options
from phalanx.model.signatures import MethodShape
from phalanx.objects.handle import ActorHandle, ActorMethod


class GangActor(ActorHandle[Any]):
    """A handle of an actor of a gang. A handle may be passed to other processes. The actor ends
    when the program drops the first handle, which `first_handle` returned.
    """

    _key: MemberId
    _hub: Any
    _methods: Mapping[str, MethodShape]
    _turns: tuple[bytes, Iterator[int]]
    """This handle's id as a caller, and the counter that numbers its calls. The calls of a caller
    start in the order of their numbers.
    """

    def __init__(
        self, hub: Any, group: GangId, index: int, methods: Mapping[str, MethodShape]
    ) -> None:
        self.__dict__["_key"] = (group, index)
        self.__dict__["_hub"] = hub
        self.__dict__["_methods"] = methods
        self.__dict__["_turns"] = (os.urandom(8), itertools.count())

    def __getattr__(self, name: str) -> GangMethod:
        shape = self._methods.get(name)
        if shape is None:
            near = "" if name.startswith("_") else nearest(name, self._methods)
            raise AttributeError(f"This gang's actor has no method {name!r}{near}")
        return GangMethod(self, name, shape)

    def __dir__(self) -> list[str]:
        return list(self._methods)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GangActor) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> Any:
        return GangActor, (self._hub, *self._key, self._methods)


def first_handle(
    hub: Any, group: GangId, index: int, methods: Mapping[str, MethodShape]
) -> GangActor:
    """Return the program's first handle of an actor. The actor ends when this handle is dropped."""
    handle = GangActor(hub, group, index, methods)
    weakref.finalize(handle, dismiss, hub, group, index).atexit = False
    return handle


def dismiss(hub: Any, group: GangId, index: int) -> None:
    """End an actor of a gang. The actor is never created again."""
    if ray.is_initialized():
        hub.dismiss.remote(group, index)


class GangMethod(ActorMethod):
    """One method of an actor of a gang."""

    def __init__(
        self,
        actor: GangActor,
        name: str,
        shape: MethodShape,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._actor = actor
        self._name = name
        self._shape = shape
        self._options = dict(options or {})

    def options(self, **options: Any) -> GangMethod:
        """Return the same method with these options."""
        check_method_options(options)
        return GangMethod(self._actor, self._name, self._shape, options)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method. Returns a reference or a list of references."""
        self._shape.arity.check(self._name, args, kwargs)
        returns = self._options.get("num_returns") or self._shape.returns
        if not isinstance(returns, int) or returns < 1:
            raise NotImplementedError("On Ray, methods of a gang's actors cannot return streams.")
        group, index = self._actor._key
        call = self._actor._hub.call.options(num_returns=returns)
        caller, numbers = self._actor._turns
        turn = (caller, next(numbers))
        return call.remote(group, index, turn, self._name, self._options, [args, kwargs])
