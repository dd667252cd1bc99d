"""The embedded engine: a runtime of this process, and the node it belongs to."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import msgspec

from phalanx.errors import LocalNodeDiedError, PhalanxError, TaskError
from phalanx.model.ids import PREFIX_BYTES
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
from phalanx.runtime.os.connection import Connection
from phalanx.worker.context import current_lease

if TYPE_CHECKING:
    from phalanx.runtime.driver.introduction import JobOptions
    from phalanx.runtime.driver.own_node import OwnNode

R = TypeVar("R")

DRAIN_S = 2.0


class OwnActor(HostedActor, Protocol):
    """The actor that this process is."""

    def leave(self) -> NoReturn:
        """End it, as what calls this asks."""
        ...


class EmbeddedEngine:
    """Runs everything on this machine, and on those whose nodes have joined it."""

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
        """`address`: HOST:PORT of the cluster's head, empty for a cluster of one machine. `actor`:
        the one that this process is, if any."""
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
        """See Engine."""
        return self.job.namespace

    @property
    def queue(self) -> str:
        """See Engine."""
        return self.job.queue

    @property
    def priority(self) -> int:
        """See Engine."""
        return self.job.priority

    @property
    def default_env(self) -> dict[str, Any]:
        """See Engine."""
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
    ) -> EmbeddedEngine:
        """A driver's engine on the node at the other end of `node`; `own`: the one that ends with
        this driver. Raises SystemFailureError."""
        # Not at the top: a worker has an engine, too, and is warm sooner without a driver's part.
        from phalanx.runtime.driver.introduction import introduce

        introduced = introduce(node, job)
        runtime = Runtime(
            session, introduced.process, "driver", node, on_log=output.log, on_warning=output.warn
        )
        runtime.go_by(introduced.settings)
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
        """End the job; and the node, when it was started here. Waits until all is gone."""
        runtime = self.runtime
        forget_process(runtime.process_id)
        interrupts.unguard()
        interrupts.end_by_signal()
        if not runtime.is_closed:
            with contextlib.suppress(PhalanxError):  # what was printed should be seen
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
        """See Engine."""
        return self._own_node is not None

    @property
    def is_alive(self) -> bool:
        """Whether the node is there."""
        return not self.runtime.is_closed

    def cluster_address(self) -> str:
        """What `init(address=...)` of another program on this machine joins the same by."""
        return self.address or address_of(self.runtime.session)

    def facts(self) -> dict[str, Any]:
        """See Engine."""
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
        """Values, in order; see `waiting`."""
        if isinstance(refs, list):
            return self._waiting.get_many(refs, timeout_s)
        return self._waiting.get_one(refs, timeout_s)

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """See Engine."""
        if set(map(type, refs)) == {ObjectRef}:
            return self._waiting.wait_some(list(refs), count, timeout_s, fetch)
        items = [r.peek() if isinstance(r, ObjectRefGenerator) else r for r in refs]
        ready = set(self._waiting.wait_some(items, count, timeout_s, fetch)[0])
        pairs = list(zip(refs, items, strict=True))
        return [r for r, i in pairs if i in ready], [r for r, i in pairs if i not in ready]

    def put(self, value: Any) -> ObjectRef[Any]:
        """A new object. Raises LocalNodeDiedError."""
        if self.runtime.is_closed:
            raise LocalNodeDiedError("The node process of this machine is gone.")
        owner = self.runtime.owner
        if isinstance(value, TaskError):  # as where a task returns one: it is raised to its readers
            data = failures.describe(value, value.function_name, os.getpid())
            return owner.objects.put(owner.next_object(), Value(FAILED, data), None, None)
        payload, hold, refs = self.runtime.packer.pack(value)
        return owner.objects.put(owner.next_object(), payload, hold, refs)

    def cancel(
        self, ref: ObjectRef[Any] | ObjectRefGenerator[Any], force: bool, recursive: bool
    ) -> None:
        """See Engine."""
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
        """See Engine."""
        with self.runtime.hooks.lock_without_callbacks():
            taken_back = self.runtime.owner.cancelling.withdraw(ref._number)
        self.runtime.flush()
        return taken_back

    # ---- tasks, actors, gangs ----------------------------------------------------------------

    def bind_function(
        self, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> BoundFunction:
        """See Engine."""
        return self._submitter.bind(definition, options)

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> EmbeddedHandle[Any]:
        """See Engine."""
        return self._actors.create(definition, options, args, kwargs)

    def get_actor(self, name: str, namespace: str | None) -> EmbeddedHandle[Any]:
        """See Engine."""
        return self._actors.get(name, namespace)

    def kill(self, actor: EmbeddedHandle[Any], no_restart: bool) -> None:
        """See Engine."""
        client = actor._client
        if no_restart:
            with self.runtime.lock:  # this process's own calls fail from this moment on
                client.reason = KILLED
                client.dead()
        self.ask(KillActor(client.actor, no_restart))

    def exit_actor(self) -> None:
        """See Engine."""
        actor = self._actor()
        if actor is None:
            raise TypeError(
                "exit_actor API is called on a non-actor worker: only actors have an end."
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
    ) -> tuple[bytes, Asked[None]]:
        """See Engine."""
        group = self.new_group()
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

    def group_ready(self, group: bytes) -> None:
        """See Engine."""
        return

    def new_group(self) -> bytes:
        """See Engine."""
        return os.urandom(14) + self.runtime.process_id[12:]

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
        return self._submitter.start_gang(definition, options, group, members, least, args, kwargs)

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
        """See Engine."""
        if isinstance(what, EmbeddedHandle):
            return ExplainActor(what._client.actor.hex())
        return self._submitter.why_pending(what)

    # ---- the node ----------------------------------------------------------------------------

    def ask(self, request: Request[R]) -> R:
        """See Engine."""
        return self._requests.ask(request)

    def nodes(self) -> list[dict[str, Any]]:
        """See Engine."""
        return [node_row(node) for node in self.ask(ListNodes())]

    def cluster_resources(self) -> dict[str, float]:
        """See Engine."""
        return self.ask(GetClusterResources())

    def available_resources(self) -> dict[str, float]:
        """See Engine."""
        return self.ask(GetAvailableResources())

    def named_actors(self, namespace: str | None) -> list[tuple[str, str]]:
        """See Engine."""
        return self.ask(ListNamedActors(namespace))

    def group_created(self, group: bytes) -> Asked[bool]:
        """See Engine."""
        return self._requests.ask_async(WaitGroup(group))

    def remove_group(self, group: bytes) -> Asked[None]:
        """See Engine."""
        return self._requests.ask_async(RemoveGroup(group))

    def named_group(self, name: str) -> tuple[bytes, list[dict[str, float]]]:
        """See Engine."""
        found = self.ask(GetNamedGroup(name, self.namespace))
        return found.group, found.bundles

    def groups(self) -> list[dict[str, Any]]:
        """See Engine."""
        return self.ask(ListGroups())

    def node_id(self) -> str:
        """The id of the node that this process is on."""
        if not self._node_id:
            self._node_id = self.ask(GetNodeId())
        return self._node_id

    def node_labels(self) -> dict[str, str]:
        """The labels of that node."""
        return self.ask(GetNodeLabels())

    def handle_of(self, actor: bytes) -> EmbeddedHandle[Any]:
        """A handle of the actor with this id. Raises ValueError when it is not known."""
        known = self.ask(GetActorHandle(actor))
        shape = msgspec.msgpack.decode(known.handle, type=ActorShape)
        return self.runtime.caller.handle_of(actor, shape, None)

    def runtime_context(self) -> RuntimeContext:
        """See Engine."""
        runtime = self.runtime
        return RuntimeContext(runtime.process_id, runtime.session, self.job, self, self._actor)

    def gpu_ids(self) -> list[Any]:
        """See Engine."""
        lease = current_lease()
        return [] if lease is None else visible_ids("GPU", lease.devices)

    def timeline(self) -> list[dict[str, Any]]:
        """See Engine: of this process, and of its workers as far as their node knows."""
        runs = [*self.runtime.owner.journal.runs(), *self.ask(ListRuns())]
        return [trace_event(run) for run in runs if run.worker]

    def state(self, query: StateQuery) -> StateAnswer:
        """See Engine."""
        return self.ask(QueryState(query))

    def cluster_events(self) -> list[dict[str, Any]]:
        """See Engine: what nodes, and the processes that own tasks, recorded of each other."""
        self.runtime.owner.report_events()
        found = self.ask(ListClusterEvents())
        me = self.runtime.process_id
        return found + [
            executed_elsewhere(run, me)
            for run in self.runtime.owner.journal.runs()
            if run.worker[:PREFIX_BYTES] != me[:PREFIX_BYTES]
        ]


def adopt_runtime(runtime: Runtime, job: JobSettings, actor: Callable[[], OwnActor | None]) -> None:
    """Make a worker's runtime the engine of its process. `actor`: the one that it is, if any."""
    job.environment = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))
    set_current(EmbeddedEngine(runtime, job, actor=actor))


def _leave_behind() -> None:
    """A forked child starts without an engine: it must not speak, or end, in its parent's name."""
    engine = current()
    if isinstance(engine, EmbeddedEngine):
        set_current(None)
        interrupts.end_by_signal()
        engine.runtime.leave_behind()
        if engine._own_node is not None:
            engine._own_node.leave_behind()


os.register_at_fork(after_in_child=_leave_behind)
