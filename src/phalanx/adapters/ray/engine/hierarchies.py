"""Makes Ray's references, handles and errors count as Phalanx's.

Ray's types are registered with Phalanx's, so that `isinstance` accepts them. Each of Ray's error
classes becomes a subclass of Phalanx's class with the same name. So `except phalanx.exceptions.X`
catches an error wherever Ray raises it: in `get`, in `await`, in the callback of a future, or in a
task that reads the result of another task. To register the errors is not enough, because an
`except` clause needs true subclasses. To wrap the errors in `get` is not enough, because Ray raises
them in other places, too. For programs for Ray nothing changes, except that error classes have one
more base class.
"""

from __future__ import annotations

import ray
import ray.actor
from ray import exceptions as theirs

from phalanx import exceptions as ours
from phalanx.model import ids
from phalanx.objects.handle import ActorHandle
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import DynamicObjectRefGenerator, ObjectRefGenerator

_METHODS = {"__init__", "__str__", "__repr__", "__reduce__", "as_instanceof_cause"}


def join_hierarchies() -> None:
    """Let `isinstance` and `except` with Phalanx's names accept Ray's types.

    May be called again.
    """
    if issubclass(theirs.RayError, ours.RayError):
        return
    ObjectRef.register(ray.ObjectRef)
    ObjectRefGenerator.register(ray.ObjectRefGenerator)
    DynamicObjectRefGenerator.register(ray._raylet.DynamicObjectRefGenerator)
    ActorHandle.register(ray.actor.ActorHandle)
    for own in ids.BaseID.__subclasses__():
        own.register(getattr(ray, own.__name__))
    theirs.RayError.__bases__ = (ours.RayError,)
    for name in ours.__all__:
        mine, other = getattr(ours, name), getattr(theirs, name, None)
        if other is None or other is theirs.RayError:
            continue
        for method in set(vars(mine)) & _METHODS - set(vars(other)):
            setattr(other, method, getattr(other, method))  # Ray's class keeps Ray's behaviour
        rays = tuple(base for base in other.__bases__ if base.__module__ != "builtins")
        built_in = tuple(base for base in other.__bases__ if base.__module__ == "builtins")
        if other.__bases__[0] in built_in:
            other.__bases__ = (mine, *rays)  # `mine` puts the built-in class first as well
        else:
            other.__bases__ = (*rays, mine, *built_in)
