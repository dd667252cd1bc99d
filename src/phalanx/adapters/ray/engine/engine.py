"""The Ray engine: a driver's or worker's connection to a Ray cluster.

References, generators and handles are Ray's own, and ordinary calls go straight to Ray; what is
asked of queues, gangs and jobs goes to the scheduler's actor.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import ray
import ray.actor
from ray.util import list_named_actors

from phalanx.adapters.ray.engine import gang_member, groups
from phalanx.adapters.ray.engine.context import RayContext
from phalanx.adapters.ray.engine.functions import NativeDefinitions
from phalanx.adapters.ray.engine.gang_actor import GangActor, dismiss, first_handle
from phalanx.adapters.ray.engine.gang_hub import GangHub
from phalanx.adapters.ray.engine.listing import OF_SCHEDULER, ray_listing
from phalanx.adapters.ray.engine.strategies import native_group
from phalanx.adapters.ray.engine.task_batches import TaskBatches
from phalanx.adapters.ray.scheduler.client import SchedulerClient
from phalanx.errors import PhalanxError
from phalanx.model.jobs.spec import DEFAULT_QUEUE
from phalanx.model.options import DEFAULT_RETRIES, required_resources
from phalanx.model.rows.explanation import Explanation
from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.groups import WaitGroup
from phalanx.protocol.requests.ray import LeaveScheduler
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState
from phalanx.runtime.engine.definitions import ActorDefinition, FunctionDefinition
from phalanx.runtime.engine.interface import Call, PendingReply

R = TypeVar("R")

GANG = b"gang"
"""Groups of gangs begin so; placement groups that programs make have ids of Ray's."""
GROUP_BYTES = 18
LEAVE_S = 2.0
MAX_MEMBERS = 100_000
"""So many members of gangs may wait and run at once in one program, and are remembered."""


class RayEngine:
    """See Engine."""

    ref_type: type = ray.ObjectRef
    generator_type: type = ray.ObjectRefGenerator

    def __init__(
        self, facts: Mapping[str, Any], queue: str, priority: int, ends_ray: bool = False
    ) -> None:
        """`facts`: as Ray's init tells them. `ends_ray`: whether the connection to Ray was made
        here and ends with the engine."""
        self.is_worker = bool(ray.get_runtime_context().worker.mode == ray.WORKER_MODE)
        self.namespace: str = ray.get_runtime_context().namespace
        self.queue = queue
        self.priority = priority
        self.default_env: dict[str, Any] = dict(ray.get_runtime_context().runtime_env)
        self._facts = dict(facts)
        self._ends_ray = ends_ray
        self._definitions = NativeDefinitions()
        self._scheduler: SchedulerClient | None = None
        self._batches: TaskBatches | None = None
        self._hub: Any = None
        self._gang_of: dict[Any, bytes] = {}
        self.origin = os.urandom(16)
        """Names this process to the scheduler."""

    # ---- up and down -------------------------------------------------------------------------

    @property
    def owns_cluster(self) -> bool:
        """See Engine: queues are made by those who run the cluster."""
        return False

    @property
    def is_alive(self) -> bool:
        """See Engine."""
        return bool(ray.is_initialized())

    def stop(self) -> None:
        """See Engine: a connection that the program made itself stays."""
        if not ray.is_initialized():
            return
        if self._hub is not None:
            ray.kill(self._hub)
        if self._hub is not None or self._batches is not None:
            with contextlib.suppress(PhalanxError):  # else it goes when nothing more is heard
                self.scheduler.ask(LeaveScheduler(), origin=self.origin, timeout_s=LEAVE_S)
        if self._batches is not None:
            self._batches.stop()
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

    def withdraw(self, ref: Any) -> bool:
        """See Engine: Ray does not say which tasks run."""
        return False

    # ---- tasks and actors --------------------------------------------------------------------

    def bind_function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Call:
        """See Engine."""
        queue = options.get("queue") or self.queue
        chosen = options.get("priority")
        priority = self.priority if chosen is None else chosen
        if priority or queue not in ("", DEFAULT_QUEUE):
            return self._of_queue(definition, options, queue or DEFAULT_QUEUE, priority)
        remote = self._definitions.function(definition, options).remote
        return lambda args, kwargs: remote(*args, **kwargs)

    def _of_queue(
        self, definition: FunctionDefinition, options: Mapping[str, Any], queue: str, priority: int
    ) -> Call:
        """A function whose tasks wait for their queue's turn."""
        if self._batches is None:
            self._batches = TaskBatches(self.scheduler, self.origin)
        batches = self._batches
        remote = self._definitions.admitted(definition, options).remote
        needs = required_resources(options, default_cpus=1)

        def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return batches.submit(
                queue, priority, needs, lambda answer: remote(answer, *args, **kwargs)
            )

        return call

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
        if isinstance(actor, GangActor):
            dismiss(self._hub, *actor._key)
        else:
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
    ) -> tuple[bytes, PendingReply[None]]:
        """See Engine."""
        return groups.create(bundles, strategy, name, detached, selectors, soft_target)

    def new_group(self) -> bytes:
        """See Engine."""
        return GANG + os.urandom(GROUP_BYTES - len(GANG))

    def group_ready(self, group: bytes) -> Any:
        """See Engine: a task in a removed group would wait for ever."""
        return native_group(group).ready()

    def start_gang(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: bytes,
        members: int,
        least: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """See Engine."""
        returns = options.get("num_returns") or 1
        retries = options.get("max_retries")
        function, chosen = self._definitions.member(definition, options)
        asked = (function, chosen, DEFAULT_RETRIES if retries is None else retries, args, kwargs)
        call = [ray.put(asked)]
        start = self._hub_of_gangs().member.options(num_returns=returns)
        refs = [start.remote(group, index, members, least, call) for index in range(members)]
        for ref in refs:
            self._gang_of[_first_of(ref).task_id()] = group
        while len(self._gang_of) > MAX_MEMBERS:
            del self._gang_of[next(iter(self._gang_of))]
        return refs

    def gang_actors(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        group: bytes,
        members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """See Engine."""
        hub = self._hub_of_gangs()
        cls, chosen = self._definitions.crew_member(definition, options)
        restarts = options.get("max_restarts") or 0
        hub.hire.remote(group, members, [ray.put((cls, chosen, restarts, args, kwargs))])
        return [first_handle(hub, group, index, definition.methods) for index in range(members)]

    def _hub_of_gangs(self) -> Any:
        """The actor by way of which members of gangs are started."""
        if self._hub is None:
            hub = ray.remote(GangHub).options(num_cpus=0, max_concurrency=MAX_MEMBERS)
            self._hub = hub.remote(self.origin)
        return self._hub

    def why_pending(self, what: Any) -> Request[Explanation] | None:
        """See Engine. Actors, and tasks that are in no gang, are placed by Ray."""
        group = self._gang_of.get(what.task_id()) if isinstance(what, ray.ObjectRef) else None
        return None if group is None else Explain(group.hex())

    # ---- the cluster -------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """See Engine: the scheduler answers."""
        return self.scheduler.ask(request, origin=self.origin)

    def nodes(self) -> list[dict[str, Any]]:
        """See Engine."""
        return list(ray.nodes())

    def cluster_resources(self) -> dict[str, float]:
        """See Engine."""
        return dict(ray.cluster_resources())

    def available_resources(self) -> dict[str, float]:
        """See Engine."""
        return dict(ray.available_resources())

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """See Engine."""
        found = [(row["namespace"], row["name"]) for row in list_named_actors(all_namespaces=True)]
        return [one for one in found if namespace in (None, one[0])]

    def group_created(self, group: bytes) -> PendingReply[bool]:
        """See Engine."""
        if group.startswith(GANG):
            waits = WaitGroup(group)
            return groups.Later(self.scheduler.ask_async(waits, origin=self.origin))
        return groups.Created(group)

    def remove_group(self, group: bytes) -> PendingReply[None]:
        """See Engine."""
        ray.util.remove_placement_group(native_group(group))
        return groups.Known(None)

    def named_group(self, name: str) -> tuple[bytes, list[dict[str, float]]]:
        """See Engine."""
        return groups.named(name)

    def groups(self) -> list[dict[str, Any]]:
        """See Engine."""
        return groups.table()

    @property
    def scheduler(self) -> SchedulerClient:
        """The cluster's scheduler, which is started when somebody first asks."""
        if self._scheduler is None:
            self._scheduler = SchedulerClient.connect()
        return self._scheduler

    def runtime_context(self) -> RayContext:
        """See Engine."""
        return RayContext()

    def gpu_ids(self) -> list[Any]:
        """See Engine."""
        view = gang_member.view
        return list(ray.get_gpu_ids()) if view is None else list(view.devices)

    def timeline(self) -> list[dict[str, Any]]:
        """See Engine."""
        return list(ray.timeline())

    def state(self, query: StateQuery) -> StateAnswer:
        """See Engine: what is Ray's, Ray lists."""
        return self.ask(QueryState(query)) if query.kind in OF_SCHEDULER else ray_listing(query)

    def cluster_events(self) -> list[dict[str, Any]]:
        """See Engine: Ray keeps its own."""
        return []


def _first_of(result: Any) -> Any:
    return result[0] if isinstance(result, list) else result
