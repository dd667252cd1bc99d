"""Passes functions and classes to Ray unchanged, so that all features of Ray work with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import ray

from phalanx.adapters.ray.engine.gang_member import class_in_gang, in_gang
from phalanx.adapters.ray.engine.strategies import native_options
from phalanx.adapters.ray.engine.task_batches import when_admitted
from phalanx.adapters.ray.engine.time_limit import limited
from phalanx.runtime.engine.definitions import ActorDefinition, FunctionDefinition


class NativeDefinitions:
    """A cache of Ray's remote functions and classes, which Ray exports once per connection."""

    def __init__(self) -> None:
        self._functions: WeakKeyDictionary[FunctionDefinition, dict[Any, Any]] = WeakKeyDictionary()
        self._classes: WeakKeyDictionary[ActorDefinition, dict[Any, Any]] = WeakKeyDictionary()

    def function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Any:
        """Return Ray's remote function with these options."""
        return self._function(definition, options, False)

    def admitted(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Any:
        """Return Ray's remote function for tasks of a queue. Its additional first argument is a
        reference to the scheduler's answer. The reference becomes ready when the task is admitted.
        """
        return self._function(definition, options, True)

    def member(
        self, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return Ray's remote function for a gang's members, and the options of their tasks. The
        members get their places and devices from the gang, so the tasks request no resources from
        Ray. Each member's worker ends with the member.
        """
        chosen = native_options(options, definition.name)
        chosen |= {"num_gpus": 0, "max_retries": 0}
        chosen.pop("max_calls", None)
        return ray.remote(max_calls=1)(in_gang(definition.function)), chosen

    def crew_member(
        self, definition: ActorDefinition, options: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return Ray's actor class for a gang's actors, and the options of each actor. As in
        `member`, the places and devices come from the gang.
        """
        chosen = native_options(options, definition.name)
        groups = chosen.pop("concurrency_groups", None) or {}
        chosen |= {"num_gpus": 0, "max_restarts": 0, "max_task_retries": 0}
        if "num_cpus" not in chosen:
            chosen["num_cpus"] = 1
        return _actor_class(definition, groups, class_in_gang(definition.cls)), chosen

    def _function(
        self, definition: FunctionDefinition, options: Mapping[str, Any], is_admitted: bool
    ) -> Any:
        timeout_s = options.get("timeout_s")
        chosen = native_options(options, definition.name)
        # Ray reads this attribute when the function is made remote
        max_calls = chosen.pop("max_calls", None)
        known = self._functions.setdefault(definition, {})
        native = known.get((is_admitted, timeout_s, max_calls))
        if native is None:
            function = definition.function
            if timeout_s is not None:
                function = limited(function, timeout_s)
            if is_admitted:
                function = when_admitted(function)
            native = (
                ray.remote(function)
                if max_calls is None
                else ray.remote(max_calls=max_calls)(function)
            )
            known[is_admitted, timeout_s, max_calls] = native
        return native.options(**chosen) if chosen else native

    def actor_class(self, definition: ActorDefinition, options: Mapping[str, Any]) -> Any:
        """Return Ray's actor class with these options."""
        chosen = native_options(options, definition.name)
        groups = chosen.pop("concurrency_groups", None) or {}
        known = self._classes.setdefault(definition, {})
        native = known.get(tuple(sorted(groups.items())))
        if native is None:
            native = known[tuple(sorted(groups.items()))] = _actor_class(definition, groups)
        return native.options(**chosen) if chosen else native


def _actor_class(
    definition: ActorDefinition, groups: Mapping[str, int], cls: type | None = None
) -> Any:
    """Return the class as a Ray actor class. Ray reads the options of methods and the concurrency
    groups when the actor class is made.
    """
    for _, function in inspect.getmembers(definition.cls, inspect.isfunction):
        if own := getattr(function, "__phalanx_method__", None):
            ray.method(**own)(function)
    cls = definition.cls if cls is None else cls
    return ray.remote(concurrency_groups=dict(groups))(cls) if groups else ray.remote(cls)
