"""The embedded engine: a runtime of this process, and the node it belongs to."""

from __future__ import annotations

import contextlib
import json
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.engines.definitions import ActorDefinition, FunctionDefinition
from phalanx.engines.embedded.client import creation, interrupts, waiting
from phalanx.engines.embedded.client.context import RuntimeContext
from phalanx.engines.embedded.client.functions import BoundFunction, in_gang, start_gang
from phalanx.engines.embedded.client.handles import ActorHandle
from phalanx.engines.embedded.client.records import executed_elsewhere, trace_event
from phalanx.engines.embedded.client.requests import Asked
from phalanx.engines.embedded.client.runtime import Runtime
from phalanx.engines.embedded.introduction import JobOptions, introduce
from phalanx.engines.embedded.own_node import OwnNode, StartOptions
from phalanx.engines.interface import current, set_current
from phalanx.engines.processes import session as sessions
from phalanx.engines.processes.connection import Connection, connect
from phalanx.errors import PhalanxError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.reference import ObjectRef, forget_process
from phalanx.objects.streams import ObjectRefGenerator
from phalanx.observe.task_journal import Run
from phalanx.protocol.messages import CancelOwned
from phalanx.protocol.node_messages import LogLine, Stop
from phalanx.worker import context

DRAIN_S = 2.0
_FILES = 65536


class EmbeddedEngine:
    """Runs everything on this machine, and on those whose nodes have joined it."""

    ref_type: type = ObjectRef
    generator_type: type = ObjectRefGenerator
    handle_type: type = ActorHandle

    def __init__(self, runtime: Runtime, own_node: OwnNode | None) -> None:
        self.runtime = runtime
        self.is_worker = runtime.kind == "worker"
        self._own_node = own_node
        self.namespace = ""
        self.queue = ""
        """The queue that this job's work is charged to, unless it says otherwise."""
        self.priority = 0
        self.address = ""
        """HOST:PORT of the cluster's head; empty for a cluster of one machine."""
        self.default_env: dict[str, Any] = {}
        """The runtime environment that new work inherits."""
        self._environments: set[bytes] = set()

    # ---- up and down -------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        options: StartOptions,
        job: JobOptions,
        on_log: Callable[[LogLine], None],
        on_warning: Callable[[str], None],
    ) -> EmbeddedEngine:
        """Start a node that lives as long as this driver. Raises SystemFailureError."""
        _allow_files()
        own = OwnNode(options)
        try:
            return cls._join(own.session, own.connection, own, job, on_log, on_warning)
        except BaseException:
            own.kill()
            raise

    @classmethod
    def connect(
        cls,
        session: sessions.Session,
        job: JobOptions,
        on_log: Callable[[LogLine], None],
        on_warning: Callable[[str], None],
    ) -> EmbeddedEngine:
        """Use a node of this machine that runs already. Raises ConnectionError."""
        _allow_files()
        try:
            node = connect(session.socket_of(b"node"))
        except OSError as error:
            raise ConnectionError(
                f"The node whose session is {session.directory} cannot be reached: {error}."
            ) from None
        return cls._join(session, node, None, job, on_log, on_warning)

    @classmethod
    def _join(
        cls,
        session: sessions.Session,
        node: Connection,
        own: OwnNode | None,
        job: JobOptions,
        on_log: Callable[[LogLine], None],
        on_warning: Callable[[str], None],
    ) -> EmbeddedEngine:
        runtime = Runtime(session, b"", "driver")
        runtime.on_log = on_log
        runtime.on_warning = on_warning
        introduced = introduce(node, job)
        runtime.set_identity(introduced["process"], introduced["node_id"])
        runtime.open(node)
        runtime.reactor.start()
        interrupts.guard()
        engine = cls(runtime, own)
        engine.namespace = job.namespace
        engine.queue, engine.priority = job.queue, job.priority
        engine.address = introduced["address"]
        return engine

    def stop(self) -> None:
        """End the job; and the node, when it was started here. Waits until all is gone."""
        runtime = self.runtime
        forget_process(runtime.process_id)
        interrupts.unguard()
        if not runtime.closed:
            runtime.on_node_lost = None
            with contextlib.suppress(PhalanxError):  # what was printed should be seen
                runtime.requests.ask("drain_output", timeout_s=DRAIN_S)
            with contextlib.suppress(OSError):
                runtime.node.send(Stop("the driver shut down"))
                runtime.node.drain_all(1.0)
        runtime.close()
        if self._own_node is not None:
            self._own_node.wait_gone()

    @property
    def is_alive(self) -> bool:
        """Whether the node is there."""
        return not self.runtime.closed

    def facts(self) -> dict[str, Any]:
        """See Engine."""
        session = self.runtime.session
        return {
            "address": self.address or "127.0.0.1",
            "node_ip_address": "127.0.0.1",
            "node_id": self.runtime.node_id,
            "session_dir": session.directory,
            "session_name": session.name,
            "object_store_address": session.shared,
            "raylet_socket_name": session.socket_of(b"node"),
            "gcs_address": self.address or "127.0.0.1",
            "webui_url": "",
        }

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: ObjectRef[Any] | list[ObjectRef[Any]], timeout_s: float | None) -> Any:
        """Values, in order; see `waiting`."""
        if isinstance(refs, list):
            return waiting.get_many(self.runtime, refs, timeout_s)
        return waiting.get_one(self.runtime, refs, timeout_s)

    def wait(
        self, refs: Sequence[Any], count: int, timeout_s: float | None, fetch: bool
    ) -> tuple[list[Any], list[Any]]:
        """See Engine. An object that is anywhere is ready: a reader fetches it."""
        if set(map(type, refs)) == {ObjectRef}:
            return waiting.wait_some(self.runtime, list(refs), count, timeout_s)
        items = [r.peek() if isinstance(r, ObjectRefGenerator) else r for r in refs]
        ready = set(waiting.wait_some(self.runtime, items, count, timeout_s)[0])
        pairs = list(zip(refs, items, strict=True))
        return [r for r, i in pairs if i in ready], [r for r, i in pairs if i not in ready]

    def put(self, value: Any) -> ObjectRef[Any]:
        """A new object."""
        return self.runtime.values.put(value)

    def cancel(
        self, ref: ObjectRef[Any] | ObjectRefGenerator[Any], force: bool, recursive: bool
    ) -> None:
        """See Engine."""
        runtime = self.runtime
        if isinstance(ref, ObjectRefGenerator):
            ref = ref.completed()
        if force and runtime.calls.is_call(ref._number):
            raise ValueError(
                "force=True is not supported for actor tasks: use kill() on the actor."
            )
        if ref._owner == runtime.process_id:
            with runtime.lock:
                runtime.tasks.cancelling.cancel_number(ref._number, force, recursive)
        else:
            connection = runtime.peer(ref._owner)
            if connection is not None:
                connection.send(CancelOwned(ref._number, force, recursive))
        runtime.flush()

    # ---- tasks, actors, gangs ----------------------------------------------------------------

    def bind_function(
        self, definition: FunctionDefinition, options: Mapping[str, Any]
    ) -> BoundFunction:
        """See Engine."""
        return BoundFunction(self, definition, options)

    def create_actor(
        self,
        definition: ActorDefinition,
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> ActorHandle[Any]:
        """See Engine."""
        return creation.create_actor(self, definition, options, args, kwargs)

    def get_actor(self, name: str, namespace: str | None) -> ActorHandle[Any]:
        """See Engine."""
        return creation.get_actor(self, name, namespace)

    def kill(self, actor: ActorHandle[Any], no_restart: bool) -> None:
        """See Engine."""
        client = actor._client
        if no_restart:
            with self.runtime.lock:  # this process's own calls fail from this moment on
                client.reason = "The actor was killed by phalanx.kill."
                client.dead()
        self.request("kill_actor", actor=client.actor, no_restart=no_restart)

    def exit_actor(self) -> None:
        """See Engine."""
        creation.exit_actor()

    def create_group(
        self,
        bundles: list[dict[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: list[dict[str, str]],
        soft_target: str | None,
    ) -> tuple[bytes, Asked]:
        """See Engine."""
        group = self.new_group()
        return group, self.soon(
            "create_group",
            group=group,
            bundles=bundles,
            strategy=strategy,
            name=name,
            detached=detached,
            selectors=selectors,
            soft_target=soft_target,
        )

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
        return start_gang(self, definition, options, group, members, least, args, kwargs)

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
                {**options, "scheduling_strategy": creation.InBundle(in_gang(group, index))},
                args,
                kwargs,
            )
            for index in range(members)
        ]

    def gang_of(self, ref: ObjectRef[Any]) -> bytes | None:
        """See Engine."""
        return self.runtime.tasks.gangs.group_of(ref)

    # ---- the node ----------------------------------------------------------------------------

    def request(self, method: str, **args: Any) -> Any:
        """Ask the node."""
        return self.runtime.requests.ask(method, **args)

    def soon(self, method: str, **args: Any) -> Asked:
        """See Engine."""
        return self.runtime.requests.soon(method, **args)

    def node_id(self) -> str:
        """The id of the node that this process is on."""
        if not self.runtime.node_id:
            self.runtime.node_id = self.request("node_id")
        return self.runtime.node_id

    def runtime_context(self) -> RuntimeContext:
        """See Engine."""
        return RuntimeContext(self)

    def gpu_ids(self) -> list[Any]:
        """See Engine."""
        task = context.current.get()
        return [] if task is None else list(task.lease.devices.get("GPU", ()))

    def timeline(self) -> list[dict[str, Any]]:
        """See Engine: of this process, and of its workers as far as they told."""
        told = [Run(*row) for row in self.request("events")]
        runs = [*self.runtime.tasks.journal.runs(), *told]
        return [trace_event(run) for run in runs]

    def cluster_events(self) -> list[dict[str, Any]]:
        """See Engine: what nodes, and the processes that own tasks, recorded of each other."""
        self.runtime.tell_events()
        found: list[dict[str, Any]] = self.request("cluster_events")
        me = self.runtime.process_id
        return found + [
            executed_elsewhere(run, me)
            for run in self.runtime.tasks.journal.runs()
            if run.worker[:PREFIX_BYTES] != me[:PREFIX_BYTES]
        ]

    def environment_key(self, environment: dict[str, Any]) -> bytes:
        """A short name for a runtime environment, known to the node."""
        import hashlib

        text = json.dumps(environment, sort_keys=True)
        key = hashlib.sha256(text.encode()).digest()[:12]
        if key not in self._environments:
            self._environments.add(key)
            variables = dict(environment.get("env_vars") or {})
            variables["PHALANX_RUNTIME_ENV"] = text
            self.runtime.requests.tell("environment", key=key, env=variables)
        return key


def adopt_runtime(runtime: Runtime) -> None:
    """Make a worker's runtime the engine of its process."""
    engine = EmbeddedEngine(runtime, None)
    engine.default_env = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))
    set_current(engine)


def _leave_behind() -> None:
    """A forked child starts without an engine: it must not speak, or end, in its parent's name."""
    engine = current()
    if isinstance(engine, EmbeddedEngine):
        set_current(None)
        engine.runtime.leave_behind()
        if engine._own_node is not None:
            engine._own_node.leave_behind()


os.register_at_fork(after_in_child=_leave_behind)


def _allow_files() -> None:
    """Allow as many open files as this user may have: each worker costs the driver one, the node
    one and the workers' parent three, and shells often start with 256 or 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
