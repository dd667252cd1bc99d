"""The runtime as an engine: the owner of a process's tasks and objects, and the node to which the
process belongs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import msgspec

from phalanx.errors import LocalNodeDiedError, PhalanxError, TaskError
from phalanx.model.ids import PREFIX_BYTES, GangId, GroupId
from phalanx.model.rows.explanation import Explanation
from phalanx.model.signatures import ActorShape
from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef, forget_process
from phalanx.objects.streams import ObjectRefGenerator
from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.messages import FAILED, CancelOwned, Value
from phalanx.protocol.node_messages import Stop
from phalanx.protocol.requests.actors import (
    KILLED,
    ExplainActor,
    GetActorHandle,
    KillActor,
    ListNamedActors,
)
from phalanx.protocol.requests.cluster import (
    GetAvailableResources,
    GetClusterResources,
    ListClusterEvents,
    ListNodes,
)
from phalanx.protocol.requests.groups import (
    CreateGroup,
    GetNamedGroup,
    ListGroups,
    RemoveGroup,
    WaitGroup,
)
from phalanx.protocol.requests.node import DrainOutput, GetNodeId, GetNodeLabels, ListRuns
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState
from phalanx.runtime.daemons.daemon_files import address_of
from phalanx.runtime.driver import interrupts
from phalanx.runtime.driver.creation import ActorMaker, InBundle
from phalanx.runtime.driver.functions import BoundFunction, Submitter, in_gang
from phalanx.runtime.driver.handles import EmbeddedHandle
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.records import (
    executed_elsewhere,
    node_row,
    trace_event,
)
from phalanx.runtime.driver.requests import Asked
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.engine.definitions import ActorDefinition, FunctionDefinition
from phalanx.runtime.engine.interface import Output, current, set_current
from phalanx.runtime.engine.runtime_context import HostedActor, RuntimeContext, visible_ids
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.allocator import keep_freed_memory
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.own_pid import own_pid
from phalanx.worker.context import current_lease

if TYPE_CHECKING:
    from phalanx.runtime.driver.introduction import JobOptions
    from phalanx.runtime.driver.own_node import OwnNode

R = TypeVar("R")

DRAIN_S = 2.0


class OwnActor(HostedActor, Protocol):
    """The actor in this process."""

    def leave(self) -> NoReturn:
        """End the actor from within the calling method."""
        ...


class RuntimeEngine:
    """The engine of Phalanx's own runtime. It runs work on all nodes of the cluster."""

    ref_type: type = ObjectRef
    generator_type: type = ObjectRefGenerator

    def __init__(
        self,
        runtime: Runtime,
        job: JobSettings,
        *,
        own_node: OwnNode | None = None,
        node_id: str = "",
        address: str = "",
        actor: Callable[[], OwnActor | None] = lambda: None,
    ) -> None:
        """`runtime` must be set up. `address`: HOST:PORT of the cluster's head; "" for a cluster of
        one machine. `actor` returns the actor in this process, if any.
        """
        keep_freed_memory()
        self.runtime = runtime
        self.job = job
        self.is_worker = runtime.kind == "worker"
        self._own_node = own_node
        self._node_id = node_id
        self.address = address
        self._actor = actor
        owner, reactor = runtime.owner, runtime.reactor
        self._waiting = runtime.waiting
        self._requests = runtime.requests
        if self.is_worker or address:
            job.ask_head = self._requests.ask
        job.list_nodes = lambda: self.ask(ListNodes())
        self._submitter = Submitter(
            runtime.process_id,
            runtime.lock,
            owner.tasks,
            owner.gangs,
            runtime.packer.pack,
            runtime.hooks,
            job,
            reactor.kick,
            runtime.flush,
        )
        self._actors = ActorMaker(
            runtime.process_id,
            runtime.lock,
            owner.actors,
            runtime.requests,
            runtime.waiting,
            runtime.packer.pack,
            job,
            runtime.caller,
        )

    @property
    def namespace(self) -> str:
        """The namespace of this job's named actors."""
        return self.job.namespace

    @property
    def queue(self) -> str:
        """The queue of this job's work; "" for no queue."""
        return self.job.queue

    @property
    def priority(self) -> int:
        """The priority of this job's work."""
        return self.job.priority

    @property
    def default_env(self) -> dict[str, Any]:
        """The runtime environment that new work inherits."""
        return self.job.environment

    @default_env.setter
    def default_env(self, environment: dict[str, Any]) -> None:
        self.job.set_environment(environment)

    # ---- up and down -------------------------------------------------------------------------

    @classmethod
    def join(
        cls,
        session: sessions.Session,
        node: Connection,
        own: OwnNode | None,
        job: JobOptions,
        output: Output,
    ) -> RuntimeEngine:
        """Return the engine of a driver. `node`: the connection to the node that the engine uses.

        `own`: the node that ends together with this driver, if any. Raises SystemFailureError.
        """
        # Imported here and not at the top: a worker has an engine too, and is ready sooner without
        # the modules of drivers.
        from phalanx.runtime.driver.introduction import introduce

        introduced = introduce(node, job)
        runtime = Runtime(
            session, introduced.process, "driver", node, on_log=output.log, on_warning=output.warn
        )
        runtime.apply_settings(introduced.settings)
        runtime.open()
        runtime.reactor.start()
        interrupts.guard()
        interrupts.end_by_exit()
        return cls(
            runtime,
            JobSettings(runtime.owner.requests, job.namespace, job.queue, job.priority),
            own_node=own,
            node_id=introduced.node_id,
            address=introduced.address,
        )

    def stop(self) -> None:
        """Show what the workers have printed so far, and end the job. If the node was started here,
        end it, too, and wait until it is gone.
        """
        runtime = self.runtime
        forget_process(runtime.process_id)
        interrupts.unguard()
        interrupts.end_by_signal()
        if not runtime.is_closed:
            # This shows what the workers have printed so far.
            with contextlib.suppress(PhalanxError):
                self._requests.ask(DrainOutput(), DRAIN_S)
            with contextlib.suppress(OSError):
                with runtime.lock:
                    runtime.owner.leave_runs()
                runtime.node.send(Stop("the driver shut down"))
                runtime.node.connection.drain_all(1.0)
        runtime.close()
        if self._own_node is not None:
            self._own_node.wait_gone()

    @property
    def owns_cluster(self) -> bool:
        """Whether this driver started its own node."""
        return self._own_node is not None

    @property
    def is_alive(self) -> bool:
        """Whether the connection to the node is open."""
        return not self.runtime.is_closed

    def cluster_address(self) -> str:
        """Return the address at which other programs on this machine find the same cluster."""
        return self.address or address_of(self.runtime.session)

    def facts(self) -> dict[str, Any]:
        """Return the addresses of the cluster, the id of the node, and the directories of the
        session.
        """
        session = self.runtime.session
        return {
            "address": self.cluster_address(),
            "node_ip_address": "127.0.0.1",
            "node_id": self._node_id,
            "session_dir": session.directory,
            "session_name": session.name,
            "object_store_address": session.shared,
            "raylet_socket_name": session.socket_of(b"node"),
            "gcs_address": self.cluster_address(),
            "webui_url": "",
        }

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: ObjectRef[Any] | list[ObjectRef[Any]], timeout_s: float | None) -> Any:
        """Return the value of a reference, or the values of a list of references, as `phalanx.get`
        does.
        """
        if isinstance(refs, list):
            return self._waiting.get_many(refs, timeout_s)
        return self._waiting.get_one(refs, timeout_s)

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """Wait until `count` of these references and generators are ready, or the time is up.
        Returns two lists: those that are ready, and the others.
        """
        if set(map(type, refs)) == {ObjectRef}:
            return self._waiting.wait_some(list(refs), count, timeout_s, fetch)
        items = [r.peek() if isinstance(r, ObjectRefGenerator) else r for r in refs]
        ready = set(self._waiting.wait_some(items, count, timeout_s, fetch)[0])
        pairs = list(zip(refs, items, strict=True))
        return [r for r, i in pairs if i in ready], [r for r, i in pairs if i not in ready]

    def put(self, value: Any) -> ObjectRef[Any]:
        """Store a value as a new object. Raises LocalNodeDiedError."""
        if self.runtime.is_closed:
            raise LocalNodeDiedError("The node process of this machine has ended.")
        owner = self.runtime.owner
        # As when a task returns an error: reading the object raises it.
        if isinstance(value, TaskError):
            data = failures.describe(value, value.function_name, own_pid())
            return owner.objects.put(owner.next_object(), Value(FAILED, data), None, None)
        payload, hold, refs = self.runtime.packer.pack(value)
        return owner.objects.put(owner.next_object(), payload, hold, refs)

    def cancel(
        self, ref: ObjectRef[Any] | ObjectRefGenerator[Any], force: bool, recursive: bool
    ) -> None:
        """Cancel the task that makes this object or fills this generator. If another process owns
        the object, ask that process to cancel the task.
        """
        runtime, owner = self.runtime, self.runtime.owner
        if isinstance(ref, ObjectRefGenerator):
            ref = ref.completed()
        if force and owner.calls.is_call(ref._number):
            raise ValueError(
                "force=True is not supported for actor tasks: use kill() on the actor."
            )
        with runtime.hooks.lock_without_callbacks():
            if ref._owner == runtime.process_id:
                owner.cancelling.cancel(ref._number, force, recursive)
            else:
                connection = owner.peers.peer(ref._owner)
                if connection is not None:
                    connection.send(CancelOwned(ref._number, force, recursive))
        runtime.flush()

    def withdraw(self, ref: ObjectRef[Any]) -> bool:
        """Take back the task that makes this object, if no worker has the task yet. Returns whether
        the task was taken back.
        """
        with self.runtime.hooks.lock_without_callbacks():
            taken_back = self.runtime.owner.cancelling.withdraw(ref._number)
        self.runtime.flush()
        return taken_back

    # ---- tasks, actors, gangs ----------------------------------------------------------------

    def bind_function(
        self, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> BoundFunction:
        """Return the function with these options, prepared for many calls."""
        return self._submitter.bind(definition, options)

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> EmbeddedHandle[Any]:
        """Start an actor and return its handle."""
        return self._actors.create(definition, options, args, kwargs)

    def get_actor(self, name: str, namespace: str | None) -> EmbeddedHandle[Any]:
        """Return the handle of a named actor. Raises ValueError if there is none."""
        return self._actors.get(name, namespace)

    def kill(self, actor: EmbeddedHandle[Any], no_restart: bool) -> None:
        """End an actor without waiting for its calls."""
        client = actor._client
        if no_restart:
            with self.runtime.lock:  # calls of this process fail from now on
                client.reason = KILLED
                client.dead()
        self.ask(KillActor(client.actor, no_restart))

    def exit_actor(self) -> None:
        """End the actor that calls this from one of its methods. Raises TypeError outside
        actors.
        """
        actor = self._actor()
        if actor is None:
            raise TypeError(
                "exit_actor API is called on a non-actor worker: only an actor can call it."
            )
        actor.leave()

    def create_group(
        self,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
        soft_target: str | None,
    ) -> tuple[GroupId, Asked[None]]:
        """Request a placement group. Returns its id, and the answer to the request."""
        group = self._new_group()
        request = CreateGroup(
            group,
            bundles,
            strategy,
            name,
            detached,
            selectors,
            soft_target,
            namespace=self.namespace,
        )
        return group, self._requests.ask_async(request)

    def group_ready(self, group: GroupId) -> None:
        """Return None, so that the caller starts a task in the group: once the task runs, the group
        is created.
        """
        return

    def new_gang(self) -> GangId:
        """Return a new id for a gang or placement group that this program creates."""
        return GangId(self._new_group())

    def _new_group(self) -> GroupId:
        return GroupId(os.urandom(14) + self.runtime.process_id[12:])

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
        """Submit one task for each member of the gang. Returns a reference for each member."""
        return self._submitter.start_gang(definition, options, group, members, least, args, kwargs)

    def gang_actors(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        group: GangId,
        members: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> list[Any]:
        """Start an actor in each place of the gang. Returns a handle for each member."""
        return [
            self.create_actor(
                definition,
                {**options, "scheduling_strategy": InBundle(in_gang(group, index))},
                args,
                kwargs,
            )
            for index in range(members)
        ]

    def why_pending(
        self, what: ObjectRef[Any] | EmbeddedHandle[Any]
    ) -> Request[Explanation] | None:
        """Return the request that asks why an actor waits, or why the task that makes an object
        waits. Return None if no task of this process waits for the object.
        """
        if isinstance(what, EmbeddedHandle):
            return ExplainActor(what._client.actor.hex())
        return self._submitter.why_pending(what)

    # ---- the node ----------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """Send a request to the head, and wait for its answer."""
        return self._requests.ask(request)

    def nodes(self) -> list[dict[str, Any]]:
        """Return all nodes, in the form of `ray.nodes()`."""
        return [node_row(node) for node in self.ask(ListNodes())]

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of all living nodes."""
        return self.ask(GetClusterResources())

    def available_resources(self) -> dict[str, float]:
        """Return the free resources of the nodes that are not draining."""
        return self.ask(GetAvailableResources())

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """Return (namespace, name) of the living named actors, of all namespaces if `namespace` is
        None.
        """
        return self.ask(ListNamedActors(namespace))

    def group_created(self, group: GroupId) -> Asked[bool]:
        """Return the pending answer to the question whether the group or gang has its places. The
        answer arrives once it has them, or once it is removed.
        """
        return self._requests.ask_async(WaitGroup(group))

    def remove_group(self, group: GroupId) -> Asked[None]:
        """Request the removal of a placement group."""
        return self._requests.ask_async(RemoveGroup(group))

    def named_group(self, name: str) -> tuple[bytes, list[dict[str, float]]]:
        """Return the id and the bundles of a named placement group. Raises ValueError if there is
        none.
        """
        found = self.ask(GetNamedGroup(name, self.namespace))
        return found.group, found.bundles

    def groups(self) -> list[dict[str, Any]]:
        """Return all placement groups, each as in `ray.util.placement_group_table()`."""
        return self.ask(ListGroups())

    def node_id(self) -> str:
        """Return the id of the node to which this process belongs."""
        if not self._node_id:
            self._node_id = self.ask(GetNodeId())
        return self._node_id

    def node_labels(self) -> dict[str, str]:
        """Return the labels of the node to which this process belongs."""
        return self.ask(GetNodeLabels())

    def handle_of(self, actor: bytes) -> EmbeddedHandle[Any]:
        """Return a handle of the actor with this id. Raises ValueError if the actor is not
        known.
        """
        known = self.ask(GetActorHandle(actor))
        shape = msgspec.msgpack.decode(known.handle, type=ActorShape)
        return self.runtime.caller.handle_of(actor, shape, None)

    def runtime_context(self) -> RuntimeContext:
        """Return facts about the place where the calling code runs."""
        runtime = self.runtime
        return RuntimeContext(runtime.process_id, runtime.session, self.job, self, self._actor)

    def gpu_ids(self) -> list[Any]:
        """Return the GPUs that the calling task or actor may use."""
        lease = current_lease()
        return [] if lease is None else visible_ids("GPU", lease.devices)

    def timeline(self) -> list[dict[str, Any]]:
        """Return the finished tasks that this process submitted, and the finished tasks that this
        node knows from its workers.
        """
        runs = [*self.runtime.owner.journal.runs(), *self.ask(ListRuns())]
        return [trace_event(run) for run in runs if run.worker]

    def state(self, query: StateQuery) -> StateAnswer:
        """Return a listing of the cluster. Raises ValueError for a query that is not allowed."""
        return self.ask(QueryState(query))

    def cluster_events(self) -> list[dict[str, Any]]:
        """Return the events that nodes and owners of tasks have recorded about each other, and the
        finished tasks of this process that ran on other nodes.
        """
        self.runtime.owner.report_events()
        found = self.ask(ListClusterEvents())
        me = self.runtime.process_id
        return found + [
            executed_elsewhere(run, me)
            for run in self.runtime.owner.journal.runs()
            if run.worker[:PREFIX_BYTES] != me[:PREFIX_BYTES]
        ]


def adopt_runtime(runtime: Runtime, job: JobSettings, actor: Callable[[], OwnActor | None]) -> None:
    """Make a worker's runtime the engine of its process. `actor` returns the process's actor, if
    any.
    """
    job.environment = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))
    set_current(RuntimeEngine(runtime, job, actor=actor))


def _leave_behind() -> None:
    """Remove the engine in a forked child. The child must not send messages or end a node in the
    name of its parent.
    """
    engine = current()
    if isinstance(engine, RuntimeEngine):
        set_current(None)
        interrupts.end_by_signal()
        engine.runtime.leave_behind()
        if engine._own_node is not None:
            engine._own_node.leave_behind()


os.register_at_fork(after_in_child=_leave_behind)
