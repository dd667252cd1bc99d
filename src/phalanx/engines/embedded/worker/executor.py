"""A worker's work: tasks one after another in the main thread, or an actor's calls.

Results wait in the outbox while short tasks follow each other; they leave before a task that may
take long, when there is nothing more to do, and at least every millisecond.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from types import FrameType
from typing import TYPE_CHECKING, Any

from phalanx.engines import interface
from phalanx.engines.embedded.client.interrupts import come_again, in_runtime, interruptible
from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.engines.embedded.worker.task_results import TaskResults
from phalanx.engines.embedded.worker.task_values import TaskValues
from phalanx.objects.names import prefix_of_name
from phalanx.protocol.messages import (
    SHARED,
    Call,
    Cancel,
    Consumed,
    Done,
    Failed,
    Function,
    Lease,
    Leaving,
    Message,
    Recall,
    Returned,
    Task,
    Unlease,
    Value,
)
from phalanx.protocol.node_messages import (
    ActorLeaving,
    Blocked,
    CreateActor,
    JobSetup,
    Stop,
    Terminate,
    Unblocked,
)
from phalanx.worker.context import LeaseInfo, TaskContext, current
from phalanx.worker.devices import DeviceEnvironment

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.embedded.worker.actor_host import ActorHost
    from phalanx.engines.processes.connection import Connection

SHORT_S = 0.0005
FLUSH_S = 0.001


class _Definition:
    """A function of an owner: unpickled at its first use, its calls counted."""

    __slots__ = ("calls", "function", "max_calls", "mean_s", "name", "pickle")

    def __init__(self, name: str, data: bytes, max_calls: int) -> None:
        self.name = name
        self.pickle = data
        self.max_calls = max_calls
        self.function: Any = None
        self.calls = 0
        self.mean_s = 1.0


class WorkerExecutor:
    """Runs what owners send."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._functions: dict[bytes, _Definition] = {}
        self._queue: deque[tuple[Connection, Task]] = deque()
        self._waiter: Waiter | None = None
        self._leases: dict[Connection, LeaseInfo] = {}
        self._no_lease = LeaseInfo(b"", {}, {})
        self.devices = DeviceEnvironment()
        self.job: JobSetup | None = None
        self.actor: ActorHost | None = None
        self.stopping = ""
        self._running: TaskContext | None = None
        self._main = threading.main_thread().ident or 0
        self._interruptible = False
        self._last_flush = 0.0
        self._posted: set[Connection] = set()
        self._blocked = 0
        self._contexts: dict[tuple[bytes, int], TaskContext] = {}
        self.values = TaskValues(runtime)
        self.results = TaskResults(self)
        signal.signal(signal.SIGINT, self._on_interrupt)

    def _on_interrupt(self, signum: int, frame: FrameType | None) -> None:
        running = self._running
        if not self._interruptible:
            return
        if in_runtime(frame):
            come_again(lambda: self._running is running)
        else:
            raise KeyboardInterrupt

    # ---- messages (in whichever thread leads the reactor) ------------------------------------

    def handle(self, connection: Connection, message: Message) -> bool:
        """Take a message that brings work or is about it."""
        kind = type(message)
        if kind is Call:
            if message.inputs:  # type: ignore[union-attr]
                self.values.prefetch(message.inputs)  # type: ignore[union-attr]
            if self.actor is not None:
                self.actor.receive(connection, message)  # type: ignore[arg-type]
            return True
        if kind is Task:
            if message.inputs:  # type: ignore[union-attr]
                self.values.prefetch(message.inputs)  # type: ignore[union-attr]
            self._queue.append((connection, message))  # type: ignore[arg-type]
            self._wake()
            return True
        return self._handle_rare(connection, message)

    def _handle_rare(self, connection: Connection, message: Message) -> bool:
        match message:
            case Function():
                self._functions[message.function] = _Definition(
                    message.name, message.pickle, message.max_calls
                )
            case Lease():
                self._leases[connection] = LeaseInfo(
                    message.job,
                    message.resources,
                    message.devices,
                    message.placement_group,
                    message.capture,
                    message.gang,
                )
            case Unlease():
                self._leases.pop(connection, None)
            case Recall():
                self._return_queued()
            case Cancel():
                self._cancel(connection, message)
            case Consumed():
                self._consumed(connection, message)
            case CreateActor():
                # asyncio is slow to import: drivers need none of it, and the zygote is warm.
                from phalanx.engines.embedded.worker.actor_host import ActorHost

                self.actor = ActorHost(self, message)
                self._wake()
            case JobSetup():
                self._set_up_job(message)
            case Terminate():
                self.stop(message.reason)
            case Stop():
                self.stop("told to stop")
            case _:
                return False
        return True

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.finish()

    def _set_up_job(self, message: JobSetup) -> None:
        for path in reversed(message.path):
            if path not in sys.path:
                sys.path.insert(0, path)
        engine = interface.current()
        assert engine is not None
        engine.namespace = message.namespace
        engine.queue, engine.priority = message.queue, message.priority
        environment = engine.default_env
        with contextlib.suppress(OSError):
            os.chdir(environment.get("working_dir") or message.directory)
        for path in (environment.get("working_dir"), *(environment.get("py_modules") or ())):
            if path:
                sys.path.insert(0, os.path.abspath(path))
        if message.hook:
            with contextlib.suppress(Exception):
                pickle.loads(message.hook)()  # noqa: S301  (from our driver, by the node)
        self.job = message
        self._wake()

    def stop(self, reason: str) -> None:
        """End the process: after the calls it has (an actor) or now."""
        self.stopping = reason or "stopped"
        if self.actor is not None:
            self.actor.drain()
        self._wake()

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.values.tick(now)

    def inputs_from(self, prefix: bytes) -> list[str]:
        """See Executor."""
        work: list[Task | Call] = [task for _, task in list(self._queue)]
        if self.actor is not None:
            work += self.actor.waiting()
        values = [value for one in work for value in (one.args, *one.inputs)]
        names = [v.data.decode() for v in values if type(v) is Value and v.kind == SHARED]
        return [name for name in names if prefix_of_name(name) == prefix]

    def peer_lost(self, peer: bytes) -> None:
        """An owner is gone: what it wanted is of no use."""
        for connection, _ in list(self._queue):
            if connection.peer == peer:
                self._queue = deque(x for x in self._queue if x[0].peer != peer)
                break
        self.values.peer_lost(peer)
        running = self._running
        if running is not None and running.owner == peer:
            self._interrupt(running)

    def _return_queued(self) -> None:
        """Give unstarted tasks back to their owners."""
        back: dict[Connection, list[int]] = {}
        while self._queue:
            try:
                connection, task = self._queue.popleft()
            except IndexError:
                break
            back.setdefault(connection, []).append(task.number)
        for connection, numbers in back.items():
            connection.send(Returned(numbers))

    def _cancel(self, connection: Connection, message: Cancel) -> None:
        key = (connection.peer, message.number)
        for entry in list(self._queue):
            if entry[0] is connection and entry[1].number == message.number:
                with contextlib.suppress(ValueError):
                    self._queue.remove(entry)
                    now = time.time()
                    connection.send(Failed(message.number, b"", now, now, "cancelled"))
                    return
        context = self._contexts.get(key)
        running = self._running
        if context is None and running is not None and (running.owner, running.number) == key:
            context = running
        if message.recursive:
            with self.runtime.lock:
                self.runtime.tasks.cancelling.cancel_children(key)
        if context is not None:
            context.is_cancelled = True
            if context is running:
                self._interrupt(context)
            elif self.actor is not None:
                self.actor.cancel(key)
        elif self.actor is not None:
            self.actor.cancel(key)

    def _interrupt(self, context: TaskContext) -> None:
        context.is_cancelled = True
        if not context.is_actor and self._running is context:
            signal.pthread_kill(self._main, signal.SIGINT)

    def _consumed(self, connection: Connection, message: Consumed) -> None:
        context = self._contexts.get((connection.peer, message.number))
        if context is not None:
            context.consumed = max(context.consumed, message.count)
            progress = context.progress
            if progress is not None:
                progress.finish()

    def taken(self, peer: bytes, number: int) -> None:
        """The reader of a result has registered with the owners of the references in it."""
        self.values.taken(peer, number)

    # ---- the main thread ---------------------------------------------------------------------

    def serve(self) -> int:
        """Work until told to stop; the process's exit code."""
        runtime = self.runtime
        while not self.stopping or (self.actor is not None and not self.actor.is_drained):
            if self.job is not None:
                if self._queue:
                    self._run_next()
                    continue
                if self.actor is not None:
                    self.flush()
                    return self.actor.serve()
            self.flush()
            waiter = Waiter()
            self._waiter = waiter
            if not (self.stopping or (self.job and (self._queue or self.actor))):
                runtime.reactor.wait(waiter)
            self._waiter = None
        self._return_queued()
        self.flush()
        return 0

    def flush(self) -> None:
        """Let results leave."""
        self._last_flush = time.monotonic()
        while self._posted:
            self._posted.pop().flush()
        self.runtime.flush()

    def posted(self, connection: Connection) -> None:
        """A result was posted to this connection."""
        self._posted.add(connection)

    def flush_before(self, expected_s: float) -> None:
        """Let results leave before something that may take long."""
        if self._posted and (expected_s > SHORT_S or time.monotonic() - self._last_flush > FLUSH_S):
            self.flush()

    def flush_if_late(self) -> None:
        """Let results leave that have waited for company long enough."""
        if time.monotonic() - self._last_flush > FLUSH_S:
            self.flush()

    def track(self, key: tuple[bytes, int], context: TaskContext) -> None:
        """A stream that its reader may hold up."""
        self._contexts[key] = context

    def untrack(self, key: tuple[bytes, int]) -> None:
        """The stream has ended."""
        self._contexts.pop(key, None)

    def post_result(self, connection: Connection, message: Message) -> None:
        """A result that may wait a moment for company."""
        connection.post(message)
        self._posted.add(connection)

    def _run_next(self) -> None:
        try:
            connection, task = self._queue.popleft()
        except IndexError:
            return
        definition = self._functions.get(task.function)
        if definition is None:
            error = RuntimeError(f"no function came with task {task.name or task.number}")
            self.post_result(
                connection, self.results.failure(task.number, error, task.name, time.time())
            )
            return
        self.flush_before(definition.mean_s)
        lease = self._leases.get(connection, self._no_lease)
        context = TaskContext(
            connection.peer, task.number, task.name, task.attempt, lease, is_actor=False
        )
        context.function_name = definition.name
        gang = lease.gang.env if lease.gang is not None else {}
        if lease.devices or definition.calls == 0 or gang or self.devices.shows_gang:
            self.devices.show(lease.devices, lease.resources.get("CPU", 1), gang)
        token = current.set(context)
        self._running = context
        started = time.time()
        try:
            message = self._run(connection, task, definition, context, started)
        finally:
            self._running = None
            current.reset(token)
        definition.calls += 1
        taken = time.time() - started
        definition.mean_s += (1.0 if definition.calls == 1 else 0.2) * (taken - definition.mean_s)
        if context.adopted is not None:
            self.values.settle_borrows(context, connection)
        self.post_result(connection, message)
        if self.runtime.tasks.children:
            self.runtime.tasks.children.pop((connection.peer, task.number), None)
        if definition.max_calls and definition.calls >= definition.max_calls:
            self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        connection.post(Leaving())
        self._return_queued()
        self.stopping = "max_calls reached"
        self._posted.add(connection)

    @interruptible
    def _run(
        self,
        connection: Connection,
        task: Task,
        definition: _Definition,
        context: TaskContext,
        started: float,
    ) -> Done | Failed:
        result: Any = None
        try:
            if definition.function is None:
                definition.function = self._load(definition)
            args, kwargs = self.values.arguments(task.args, task.inputs, context)
            self._interruptible = True
            try:
                if context.is_cancelled:
                    raise KeyboardInterrupt
                result = definition.function(*args, **kwargs)
                if task.returns == 1 and not inspect.isgenerator(result):
                    self._interruptible = False
                    del args, kwargs
                    value = self.values.pack(result, connection, task.number, definition.name)
                    return Done(task.number, value, started, time.time())
                return self.results.pack_many(connection, task, result, context, started)
            finally:
                self._interruptible = False
        except KeyboardInterrupt:
            # Asked for by cancel, or the task's own doing: never one in the reader.
            return Failed(task.number, b"", started, time.time(), "cancelled")
        except SystemExit as error:
            self._exit(connection, error)
            raise AssertionError("unreachable") from None
        except BaseException as error:
            return self.results.failure(task.number, error, definition.name, started)

    def _load(self, definition: _Definition) -> Any:
        try:
            return pickle.loads(definition.pickle)  # noqa: S301  (from our owner)
        except Exception as error:
            raise RuntimeError(
                f"The function {definition.name} could not be loaded in a worker "
                f"({type(error).__name__}: {error}). A module that only the driver can import is "
                "the usual cause: make it importable, or define the function in the main script."
            ) from error

    def _exit(self, connection: Connection, error: SystemExit) -> None:
        """sys.exit() in a task ends its worker."""
        self.flush()
        connection.drain_all(1.0)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        code = error.code if isinstance(error.code, int) else 1
        os._exit(code)

    # ---- waiting inside a task ---------------------------------------------------------------

    def block(self) -> bool:
        """The current task is going to wait long: give back what it keeps from others."""
        context = current.get()
        if context is None:
            return False
        if not context.is_actor:
            self._return_queued()
            self._blocked += 1
            if self._blocked == 1:
                self.runtime.node.send(Blocked())
        self.flush()
        return True

    def unblock(self) -> None:
        """It goes on."""
        context = current.get()
        if context is not None and not context.is_actor:
            self._blocked -= 1
            if self._blocked == 0:
                self.runtime.node.send(Unblocked())

    # ---- actors' ends ------------------------------------------------------------------------

    def exit_actor(self, reason: str) -> None:
        """Tell the node that the actor ends by its own will."""
        assert self.actor is not None
        self.runtime.node.send(ActorLeaving(self.actor.actor, reason))
