"""The Ray engine: a driver's or worker's connection to a Ray cluster.

References, generators and handles are Ray's own, and ordinary calls go straight to Ray; what is
asked of queues, gangs and jobs goes to the scheduler's actor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
import ray.actor
from ray.util import list_named_actors

from phalanx.engines.definitions import ActorDefinition, FunctionDefinition
from phalanx.engines.interface import Answer, Call
from phalanx.engines.ray import groups
from phalanx.engines.ray.context import RayContext
from phalanx.engines.ray.functions import NativeDefinitions
from phalanx.engines.ray.strategies import native_group


class RayEngine:
    """See Engine."""

    ref_type: type = ray.ObjectRef
    generator_type: type = ray.ObjectRefGenerator
    handle_type: type = ray.actor.ActorHandle

    def __init__(
        self, facts: Mapping[str, Any], queue: str, priority: int, ends_ray: bool = False
    ) -> None:
        """`facts`: as Ray's init tells them. `ends_ray`: whether the connection to Ray was made
        here and ends with the engine."""
        self.namespace: str = ray.get_runtime_context().namespace
        self.queue = queue
        self.priority = priority
        self.default_env: dict[str, Any] = dict(ray.get_runtime_context().runtime_env)
        self._facts = dict(facts)
        self._ends_ray = ends_ray
        self._definitions = NativeDefinitions()
        self._methods: dict[str, Callable[..., Any]] = {
            "nodes": ray.nodes,
            "cluster_resources": ray.cluster_resources,
            "available_resources": ray.available_resources,
            "list_named_actors": _named_actors,
            "remove_group": _remove_group,
            "named_group": groups.named,
            "group_table": groups.table,
        }

    # ---- up and down -------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """See Engine."""
        return bool(ray.is_initialized())

    @property
    def is_worker(self) -> bool:
        """See Engine."""
        return ray.get_runtime_context().worker.mode == ray.WORKER_MODE

    def stop(self) -> None:
        """See Engine: a connection that the program made itself stays."""
        if self._ends_ray:
            ray.shutdown()

    def facts(self) -> dict[str, Any]:
        """See Engine."""
        return self._facts

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: Any, timeout_s: float | None) -> Any:
        """See Engine."""
        return ray.get(refs, timeout=timeout_s)

    def put(self, value: Any) -> Any:
        """See Engine."""
        return ray.put(value)

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """See Engine."""
        found: tuple[list[Any], list[Any]] = ray.wait(
            list(refs), num_returns=count, timeout=timeout_s, fetch_local=fetch
        )
        return found

    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        """See Engine."""
        ray.cancel(ref, force=force, recursive=recursive)

    # ---- tasks and actors --------------------------------------------------------------------

    def bind_function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Call:
        """See Engine."""
        remote = self._definitions.function(definition, options).remote
        return lambda args, kwargs: remote(*args, **kwargs)

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """See Engine."""
        return self._definitions.actor_class(definition, options).remote(*args, **kwargs)

    def get_actor(self, name: str, namespace: str | None) -> Any:
        """See Engine."""
        return ray.get_actor(name, namespace)

    def kill(self, actor: Any, no_restart: bool) -> None:
        """See Engine."""
        ray.kill(actor, no_restart=no_restart)

    def exit_actor(self) -> None:
        """See Engine."""
        ray.actor.exit_actor()

    # ---- groups and gangs --------------------------------------------------------------------

    def create_group(
        self,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
        soft_target: str | None,
    ) -> tuple[bytes, Answer]:
        """See Engine."""
        return groups.create(bundles, strategy, name, detached, selectors, soft_target)

    def group_ready(self, group: bytes) -> Any:
        """See Engine: a task in a removed group would wait for ever."""
        return native_group(group).ready()

    # ---- the cluster -------------------------------------------------------------------------

    def request(self, method: str, **args: Any) -> Any:
        """See Engine."""
        return self._methods[method](**args)

    def soon(self, method: str, **args: Any) -> Answer:
        """See Engine."""
        if method == "wait_group":
            return groups.Created(args["group"])
        return groups.Known(self.request(method, **args))

    def runtime_context(self) -> RayContext:
        """See Engine."""
        return RayContext(self)

    def gpu_ids(self) -> list[Any]:
        """See Engine."""
        return list(ray.get_gpu_ids())

    def timeline(self) -> list[dict[str, Any]]:
        """See Engine."""
        return list(ray.timeline())

    def cluster_events(self) -> list[dict[str, Any]]:
        """See Engine: Ray keeps its own."""
        return []


def _named_actors(namespace: str | None) -> list[tuple[str, str]]:
    found = [(row["namespace"], row["name"]) for row in list_named_actors(all_namespaces=True)]
    return [one for one in found if namespace in (None, one[0])]


def _remove_group(group: bytes) -> None:
    ray.util.remove_placement_group(native_group(group))
