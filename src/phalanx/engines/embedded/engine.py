"""The embedded engine: a runtime of this process, and the node it belongs to."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from phalanx.engines.embedded import session as sessions
from phalanx.engines.embedded.client import interrupts, waiting
from phalanx.engines.embedded.client.runtime import Runtime
from phalanx.engines.embedded.connection import Connection, connect, wait_for
from phalanx.engines.embedded.daemon_files import environment
from phalanx.errors import PhalanxError, SystemFailureError
from phalanx.objects.reference import ObjectRef
from phalanx.observe.task_journal import Run
from phalanx.owner.actors import ActorClient
from phalanx.protocol.messages import LogLine, Stop

START_TIMEOUT_S = 60.0
DRAIN_S = 2.0
_FILES = 65536
_PRELOAD = ("numpy",)


class StartOptions(msgspec.Struct, kw_only=True):
    """What a new node is started with."""

    resources: dict[str, float]
    labels: dict[str, str]
    object_store_bytes: int
    unit_resources: tuple[str, ...] = ("GPU",)
    prestart: int = 0
    temp_dir: str | None = None
    memory_limit: float = 0.95
    topology: str = ""


class JobOptions(msgspec.Struct, kw_only=True):
    """What this driver is."""

    namespace: str
    log_to_driver: bool = True
    hook: bytes = b""
    queue: str = ""
    priority: int = 0


class EmbeddedEngine:
    """Runs everything on this machine."""

    def __init__(self, runtime: Runtime, process: subprocess.Popen[bytes] | None) -> None:
        self.runtime = runtime
        self._process = process
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
        session = sessions.create(options.temp_dir)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        config = {
            "session": msgspec.to_builtins(session),
            "resources": options.resources,
            "labels": options.labels,
            "object_store_bytes": options.object_store_bytes,
            "node_id": os.urandom(28).hex(),
            "preload": [m for m in _PRELOAD if m in sys.modules],
            "unit_resources": options.unit_resources,
            "prestart": options.prestart,
            "memory_limit": options.memory_limit,
            "topology": options.topology,
        }
        config["labels"] = {"ray.io/node-id": config["node_id"], **options.labels}
        process = _spawn(theirs.fileno())
        theirs.close()
        assert process.stdin is not None
        process.stdin.write(json.dumps(config).encode() + b"\n")
        process.stdin.close()
        try:
            return cls._join(session, Connection(ours), process, job, on_log, on_warning)
        except BaseException:
            process.kill()
            process.wait()
            sessions.remove(session)
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
        process: subprocess.Popen[bytes] | None,
        job: JobOptions,
        on_log: Callable[[LogLine], None],
        on_warning: Callable[[str], None],
    ) -> EmbeddedEngine:
        runtime = Runtime(session, b"", "driver")
        runtime.on_log = on_log
        runtime.on_warning = on_warning
        introduced = _introduce(node, job)
        runtime.set_identity(introduced["process"], introduced["node_id"])
        runtime.open(node)
        runtime.reactor.start()
        interrupts.guard()
        engine = cls(runtime, process)
        engine.namespace = job.namespace
        engine.queue, engine.priority = job.queue, job.priority
        engine.address = introduced["address"]
        return engine

    def stop(self) -> None:
        """End the job; and the node, when it was started here. Waits until all is gone."""
        runtime = self.runtime
        interrupts.unguard()
        if not runtime.closed:
            runtime.on_node_lost = None
            with contextlib.suppress(PhalanxError):  # what was printed should be seen
                runtime.requests.ask("drain_output", timeout_s=DRAIN_S)
            with contextlib.suppress(OSError):
                runtime.node.send(Stop("the driver shut down"))
                runtime.node.drain_all(1.0)
        runtime.close()
        process = self._process
        if process is None:
            return
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._wait_gone()

    def _wait_gone(self) -> None:
        session = self.runtime.session
        deadline = time.monotonic() + 5
        while os.path.exists(session.directory) and time.monotonic() < deadline:
            time.sleep(0.005)
        sessions.remove(session)

    @property
    def is_alive(self) -> bool:
        """Whether the node is there."""
        return not self.runtime.closed

    # ---- objects -----------------------------------------------------------------------------

    def get(self, refs: ObjectRef[Any] | list[ObjectRef[Any]], timeout_s: float | None) -> Any:
        """Values, in order; see `waiting`."""
        if isinstance(refs, list):
            return waiting.get_many(self.runtime, refs, timeout_s)
        return waiting.get_one(self.runtime, refs, timeout_s)

    def wait(
        self, refs: Sequence[ObjectRef[Any]], count: int, timeout_s: float | None
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        """(ready, not ready)."""
        return waiting.wait_some(self.runtime, list(refs), count, timeout_s)

    def put(self, value: Any) -> ObjectRef[Any]:
        """A new object."""
        return self.runtime.values.put(value)

    def cancel(self, ref: ObjectRef[Any], force: bool, recursive: bool) -> None:
        """Cancel the task behind a reference."""
        runtime = self.runtime
        if ref._owner == runtime.process_id:
            with runtime.lock:
                runtime.tasks.cancelling.cancel_number(ref._number, force, recursive)
        else:
            from phalanx.protocol.messages import CancelOwned

            connection = runtime.peer(ref._owner)
            if connection is not None:
                connection.send(CancelOwned(ref._number, force, recursive))
        runtime.flush()

    def forsake(self, client: ActorClient) -> None:
        """This process kills an actor: its own calls fail from this moment on."""
        with self.runtime.lock:
            client.reason = "The actor was killed by phalanx.kill."
            client.dead()

    # ---- the node ----------------------------------------------------------------------------

    def request(self, method: str, **args: Any) -> Any:
        """Ask the node."""
        return self.runtime.requests.ask(method, **args)

    def node_id(self) -> str:
        """The id of the node that this process is on."""
        if not self.runtime.node_id:
            self.runtime.node_id = self.request("node_id")
        return self.runtime.node_id

    def runs(self) -> list[Run]:
        """Finished tasks and calls of this process, and of its workers as far as they told."""
        told = [Run(*row) for row in self.request("events")]
        return [*self.runtime.tasks.journal.runs(), *told]

    def cluster_events(self) -> list[dict[str, Any]]:
        """What nodes, and the processes that own tasks, recorded of each other; oldest first."""
        self.runtime.tell_events()
        found: list[dict[str, Any]] = self.request("cluster_events")
        return found

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


_current: EmbeddedEngine | None = None


def adopt_runtime(runtime: Runtime) -> None:
    """Make a worker's runtime the engine of its process."""
    global _current
    _current = EmbeddedEngine(runtime, None)
    _current.default_env = json.loads(os.environ.get("PHALANX_RUNTIME_ENV", "{}"))


def current() -> EmbeddedEngine | None:
    """The engine of this process."""
    return _current


def set_current(engine: EmbeddedEngine | None) -> None:
    """Make this the engine of this process."""
    global _current
    _current = engine


def _leave_behind() -> None:
    """A forked child starts without an engine: it must not speak, or end, in its parent's name."""
    engine = current()
    if engine is not None:
        set_current(None)
        engine.runtime.leave_behind()
        if engine._process is not None:
            engine._process.returncode = 0  # not this process's child: nothing to wait for


os.register_at_fork(after_in_child=_leave_behind)


def _allow_files() -> None:
    """Allow as many open files as this user may have: each worker costs the driver one, the node
    one and the workers' parent three, and shells often start with 256 or 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _spawn(driver_fd: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "phalanx.engines.embedded.node.process", str(driver_fd)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        pass_fds=(driver_fd,),
        start_new_session=True,
        env=environment(),
    )


def _introduce(node: Connection, job: JobOptions) -> dict[str, Any]:
    """Say who we are and wait for our id, before there is a reactor."""
    import select

    from phalanx.protocol.messages import Reply, Request

    args = {
        "path": [os.path.abspath(p) if p else os.getcwd() for p in sys.path],
        "directory": os.getcwd(),
        "namespace": job.namespace,
        "log_to_driver": job.log_to_driver,
        "hook": job.hook,
        "queue": job.queue,
        "priority": job.priority,
    }
    node.send(Request(1, "register_driver", args))
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not wait_for(node.fileno, select.POLLIN, left):
            raise SystemFailureError(f"The node did not answer within {START_TIMEOUT_S:.0f} s.")
        messages = node.receive()
        if messages is None:
            raise SystemFailureError(
                "The node's process ended before it took this program in; why is printed above, "
                "or stands in the log of the cluster's node."
            )
        for message in messages:
            if isinstance(message, Reply):
                result: dict[str, Any] = message.result
                return result
