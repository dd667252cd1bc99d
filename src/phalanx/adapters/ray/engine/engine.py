"""The Ray engine: a driver's or worker's connection to a Ray cluster.

References, generators and handles are Ray's own, and ordinary calls go straight to Ray. Requests
about queues, gangs and jobs go to the scheduler's actor.
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
from phalanx.model.ids import GangId, GroupId
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
"""The prefix of the ids of gangs' groups. Placement groups that programs create have Ray's own ids.
"""
GROUP_BYTES = 18
LEAVE_S = 2.0
MAX_MEMBERS = 100_000
"""The largest number of members of gangs that may wait or run at the same time in one program. The
program also remembers to which gang a task belongs, for this number of tasks at most.
"""


class RayEngine:
    """The Engine (`runtime/engine/interface.py`) of a program whose work runs on Ray."""

    ref_type: type = ray.ObjectRef
    generator_type: type = ray.ObjectRefGenerator

    def __init__(
        self, facts: Mapping[str, Any], queue: str, priority: int, ends_ray: bool = False
    ) -> None:
        """The engine connects to the scheduler on first use. `facts`: facts about the cluster, as
        Ray's init returned them. `ends_ray`: whether Phalanx connected to Ray, so that the
        connection ends with the engine.
        """
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
        """16 random bytes that identify this process to the scheduler."""

    # ---- starting and stopping ---------------------------------------------------------------

    @property
    def owns_cluster(self) -> bool:
        """False: queues are created by the administrator of the Ray cluster, not by a program."""
        return False

    @property
    def is_alive(self) -> bool:
        """Whether this process is still connected to Ray."""
        return bool(ray.is_initialized())

    def stop(self) -> None:
        """End the program's gangs and batches. A connection to Ray that the program itself made
        stays open.
        """
        if not ray.is_initialized():
            return
        if self._hub is not None:
            ray.kill(self._hub)
        if self._hub is not None or self._batches is not None:
            # otherwise the scheduler drops them once this process has been silent long enough
            with contextlib.suppress(PhalanxError):
                self.scheduler.ask(LeaveScheduler(), origin=self.origin, timeout_s=LEAVE_S)
        if self._batches is not None:
            self._batches.stop()
        if self._ends_ray:
            ray.shutdown()

    def facts(self) -> dict[str, Any]:
        return self._facts

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: Any, timeout_s: float | None) -> Any:
        return ray.get(refs, timeout=timeout_s)

    def put(self, value: Any) -> Any:
        return ray.put(value)

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        found: tuple[list[Any], list[Any]] = ray.wait(
            list(refs), num_returns=count, timeout=timeout_s, fetch_local=fetch
        )
        return found

    def cancel(self, ref: Any, force: bool, recursive: bool) -> None:
        if self._batches is None:
            ray.cancel(ref, force=force, recursive=recursive)
        else:
            self._batches.cancel(ref, force, recursive)

    def withdraw(self, ref: Any) -> bool:
        """Return False: Ray does not report which tasks are running, so no task can be
        withdrawn.
        """
        return False

    # ---- tasks and actors --------------------------------------------------------------------

    def bind_function(self, definition: FunctionDefinition, options: Mapping[str, Any]) -> Call:
        """Return the callable that submits the function with these options."""
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
        """Return the callable that submits a function whose tasks wait until their queue admits
        them.
        """
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
        """Create an actor by Ray; the handle is Ray's own."""
        return self._definitions.actor_class(definition, options).remote(*args, **kwargs)

    def get_actor(self, name: str, namespace: str | None) -> Any:
        return ray.get_actor(name, namespace)

    def kill(self, actor: Any, no_restart: bool) -> None:
        """Kill an actor. If the actor belongs to a gang, the program's hub ends it."""
        if isinstance(actor, GangActor):
            dismiss(self._hub, *actor._key)
        else:
            ray.kill(actor, no_restart=no_restart)

    def exit_actor(self) -> None:
        """End the current actor after its running call."""
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
    ) -> tuple[GroupId, PendingReply[None]]:
        """Create a Ray placement group."""
        return groups.create(bundles, strategy, name, detached, selectors, soft_target)

    def new_gang(self) -> GangId:
        """Return a new id for a gang."""
        return GangId(GroupId(GANG + os.urandom(GROUP_BYTES - len(GANG))))

    def group_ready(self, group: GroupId) -> Any:
        """Return a reference of Ray that becomes ready when the group is created. A task in the
        group is not used for this, because it would wait forever if the group is removed.
        """
        return native_group(group).ready()

    def start_gang(
        self,
        definition: FunctionDefinition,
        options: Mapping[str, Any],
        group: GangId,
        members: int,
        least: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Start a gang of tasks through the hub and return its members' references."""
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
        group: GangId,
        members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Start a gang of actors through the hub and return their handles."""
        hub = self._hub_of_gangs()
        cls, chosen = self._definitions.crew_member(definition, options)
        restarts = options.get("max_restarts") or 0
        hub.hire.remote(group, members, [ray.put((cls, chosen, restarts, args, kwargs))])
        return [first_handle(hub, group, index, definition.methods) for index in range(members)]

    def _hub_of_gangs(self) -> Any:
        """Return the hub, which starts members of gangs for this program."""
        if self._hub is None:
            hub = ray.remote(GangHub).options(num_cpus=0, max_concurrency=MAX_MEMBERS)
            self._hub = hub.remote(self.origin)
        return self._hub

    def why_pending(self, what: Any) -> Request[Explanation] | None:
        """Return the request that explains why a gang's task waits. None for actors and for tasks
        outside gangs, which Ray places.
        """
        group = self._gang_of.get(what.task_id()) if isinstance(what, ray.ObjectRef) else None
        return None if group is None else Explain(group.hex())

    # ---- the cluster -------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """Return the scheduler's answer to a request."""
        return self.scheduler.ask(request, origin=self.origin)

    def nodes(self) -> list[dict[str, Any]]:
        return list(ray.nodes())

    def cluster_resources(self) -> dict[str, float]:
        return dict(ray.cluster_resources())

    def available_resources(self) -> dict[str, float]:
        return dict(ray.available_resources())

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of each named actor. If `namespace` is None, the actors of all
        namespaces are returned.
        """
        found = [(row["namespace"], row["name"]) for row in list_named_actors(all_namespaces=True)]
        return [one for one in found if namespace in (None, one[0])]

    def group_created(self, group: GroupId) -> PendingReply[bool]:
        """Return a pending reply that arrives when the placement group is created. The group holds
        the bundles of a gang, or was created by a program.
        """
        if group.startswith(GANG):
            waits = WaitGroup(group)
            return groups.Later(self.scheduler.ask_async(waits, origin=self.origin))
        return groups.Created(group)

    def remove_group(self, group: GroupId) -> PendingReply[None]:
        ray.util.remove_placement_group(native_group(group))
        return groups.Known(None)

    def named_group(self, name: str) -> tuple[GroupId, list[dict[str, float]]]:
        """Return the id and the bundles of a named placement group."""
        return groups.named(name)

    def groups(self) -> list[dict[str, Any]]:
        return groups.table()

    @property
    def scheduler(self) -> SchedulerClient:
        """The client of the cluster's scheduler, which is started on first use."""
        if self._scheduler is None:
            self._scheduler = SchedulerClient.connect()
        return self._scheduler

    def runtime_context(self) -> RayContext:
        return RayContext()

    def gpu_ids(self) -> list[Any]:
        """Return the ids of this process's GPUs. The scheduler assigns the GPUs of a gang's member,
        and Ray the GPUs of any other process.
        """
        view = gang_member.view
        return list(ray.get_gpu_ids()) if view is None else list(view.devices)

    def timeline(self) -> list[dict[str, Any]]:
        return list(ray.timeline())

    def state(self, query: StateQuery) -> StateAnswer:
        """Return the answer to a query of the state. The scheduler answers for gangs and jobs, and
        Ray for everything else.
        """
        return self.ask(QueryState(query)) if query.kind in OF_SCHEDULER else ray_listing(query)

    def cluster_events(self) -> list[dict[str, Any]]:
        """Return an empty list: Ray keeps its own cluster events."""
        return []


def _first_of(result: Any) -> Any:
    return result[0] if isinstance(result, list) else result
