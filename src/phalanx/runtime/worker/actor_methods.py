"""The methods of an actor, by the names that its callers use."""

from __future__ import annotations

from typing import Any

from phalanx.errors import WorkerExit


class ActorMethods:
    """Methods bound to the instance. Each is looked up at its first call."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance
        self._found: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """Return the method with this name. The name `__ray_terminate__` stands for the end of the
        actor: it raises WorkerExit. Raises AttributeError for an unknown name.
        """
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look_up(name)
        return found

    def path_of(self, name: str, is_async: bool) -> str:
        """Return a method's module, class and name. As in Ray, async actors have qualified
        names.
        """
        cls = type(self._instance)
        path = f"{cls.__name__}.{name}"
        if is_async:
            path = getattr(getattr(cls, name, None), "__qualname__", path)
        return f"{cls.__module__}.{path}"

    def _look_up(self, name: str) -> Any:
        instance = self._instance
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_call__":
            return lambda function, *args, **kwargs: function(instance, *args, **kwargs)
        if name == "__ray_terminate__":
            raise WorkerExit
        cls = type(instance)
        for base in cls.__mro__:  # an attribute of the instance may have a method's name
            if name in vars(base):
                member = vars(base)[name]
                bind = getattr(type(member), "__get__", None)
                return member if bind is None else bind(member, instance, cls)
        return getattr(instance, name)
