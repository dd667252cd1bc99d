"""A worker's process around its core: runs tasks in the main thread, interrupts them, and sends
results.

Results of short tasks are sent together: before a task that may take long, when there is nothing
more to do, and at least every millisecond.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.process import current_process
from types import FrameType, GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from phalanx.errors import RuntimeEnvSetupError
from phalanx.model.raw_bytes import all_native, native
from phalanx.objects import failures
from phalanx.owner import transport
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import Done, Failed, Message, Task
from phalanx.protocol.node_messages import CreateActor, JobSetup
from phalanx.runtime.driver.interrupts import come_again, in_runtime, interruptible
from phalanx.runtime.driver.job_settings import JobSettings
from phalanx.runtime.driver.reactor import Waiter
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.engine.tracing import CARRIED
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.file_modes import mask_of_work
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.worker.devices import DeviceEnvironment
from phalanx.runtime.worker.ending import end_process
from phalanx.runtime.worker.profiling import profiler
from phalanx.runtime.worker.result_outbox import ResultOutbox
from phalanx.runtime.worker.run_times import Began
from phalanx.runtime.worker.task_results import TaskResults
from phalanx.runtime.worker.task_values import TaskValues
from phalanx.runtime.worker.traced import traced
from phalanx.worker.assigned import Entry, Key
from phalanx.worker.context import LeaseInfo, TaskContext, current, of_process
from phalanx.worker.core import SPENT, Definition, WorkerCore
from phalanx.worker.references import TaskReferences

if TYPE_CHECKING:
    from phalanx.runtime.worker.actor_host import ActorHost

_LOOK_AGAIN_S = 0.05
"""Seconds between two checks, by a process that ends, whether other processes still refer to its
objects.
"""


class WorkerExecutor:
    """Runs the tasks, or the actor, that owners send."""

    def __init__(
        self,
        runtime: Runtime,
        job: JobSettings,
        devices: Mapping[str, str],
        *,
        flush: Callable[[], None],
        setup_failure: str = "",
    ) -> None:
        """`job` gets the settings of the job for which this worker is set up. `devices`: the lists
        of devices that were shown to the node, by resource. `flush` sends all posted messages.
        `setup_failure`: why no work can run here; "" if work can run.
        """
        owner = runtime.owner
        me, references = runtime.process_id, owner.references
        self._runtime = runtime
        self._node = runtime.node
        self._reactor = runtime.reactor
        self._lock = runtime.lock
        self._children = owner.children
        self._job = job
        self._setup_error = RuntimeEnvSetupError(setup_failure) if setup_failure else None
        """The error of the environment or of the job's setup hook, because of which no work runs
        here; None if work can run.
        """
        self._references = references
        self._task_references = task_references = TaskReferences(me, references, GIVE_UP_S)
        self.core = WorkerCore(
            me, self._node, task_references, self, clock=own_time, wall=time.time
        )
        self.handle: Callable[[Connection, Message], bool] = self.core.handle
        self._outbox = ResultOutbox(flush)
        self._values = TaskValues(
            runtime.lock, runtime.waiting, runtime.values, runtime.packer.pack, owner.objects,
            references, task_references,
        )  # fmt: skip
        self._results = TaskResults(self._values, self._outbox, self.core.streams, self._reactor)
        self._devices = DeviceEnvironment(devices)
        self.actor: ActorHost | None = None
        self._waiter: Waiter | None = None
        self._main = threading.main_thread().ident or 0
        self._interruptible = False
        self.interrupt_due = False
        """Whether the running task must still be interrupted."""
        signal.signal(signal.SIGINT, self._on_interrupt)

    def _on_interrupt(self, signum: int, frame: FrameType | None) -> None:
        if not (self._interruptible and self.interrupt_due):
            return
        running = self.core.running
        if in_runtime(frame):
            come_again(lambda: self.interrupt_due and self.core.running is running)
        else:
            self.raise_interrupt()

    def raise_interrupt(self) -> NoReturn:
        """Interrupt the running task now."""
        self.interrupt_due = False
        raise KeyboardInterrupt

    # ---- effects of the core -----------------------------------------------------------------

    def wake(self) -> None:
        """Wake the main thread, because it has something to do."""
        waiter = self._waiter
        if waiter is not None:
            waiter.finish()

    def interrupt(self, context: TaskContext) -> None:
        """Interrupt the running task, if that is possible."""
        self.interrupt_due = True
        signal.pthread_kill(self._main, signal.SIGINT)

    def progress(self, context: TaskContext) -> None:
        """Let the producer of a stream continue, because the stream's reader has taken more
        items.
        """
        waiter = context.progress
        if waiter is not None:
            waiter.finish()

    def cancel_children(self, parent: Key) -> None:
        """Cancel the work that a task or call has started."""
        with self._lock:
            self._runtime.owner.cancelling.cancel_children(parent)

    def set_up(self, message: JobSetup) -> None:
        """Prepare the process for a job. Nothing runs before that."""
        self._runtime.apply_settings(message.settings)
        self._results.stream_items = message.settings.stream_items
        for path in reversed(message.path):
            if native(path) not in sys.path:
                sys.path.insert(0, native(path))
        job = self._job
        job.namespace, job.queue, job.priority = message.namespace, message.queue, message.priority
        os.umask(mask_of_work(message.umask))
        if message.authkey:
            current_process().authkey = message.authkey
        if self._setup_error is None:
            self._enter(native(message.directory))
        if message.hook and self._setup_error is None:
            try:
                pickle.loads(message.hook)()  # noqa: S301  # from the driver, by way of the node
            except Exception as error:
                text = failures.remote_traceback(error, skip_frames=1)
                self._setup_error = RuntimeEnvSetupError(
                    f"Failed to execute the setup hook method.\n{text}"
                )

    def _enter(self, drivers: str) -> None:
        """Enter the working directory that the environment names, and make its modules importable.
        If there is no such directory, enter the driver's directory, if that exists here.
        """
        environment = all_native(self._job.environment)
        if environment.get("working_dir") or environment.get("py_modules"):
            # Imported here because few programs have directories and modules.
            from phalanx.runtime.worker.directories import use_directories

            if use_directories(environment, drivers, _warn):
                return
        with contextlib.suppress(OSError):
            os.chdir(drivers)

    def become(self, message: CreateActor) -> ActorHost:
        """Make the actor that this worker is from now on."""
        # Imported here because workers that run tasks need neither module, and asyncio is slow to
        # import.
        from phalanx.runtime.worker.actor_host import ActorHost

        creation, host = msgspec.msgpack.decode(message.creation, type=Creation), ActorHost
        if creation.is_async:
            from phalanx.runtime.worker.async_actor_host import AsyncActorHost as host
        self.actor = host(
            message,
            creation,
            self._runtime,
            values=self._values,
            results=self._results,
            outbox=self._outbox,
            devices=self._devices,
        )
        return self.actor

    # ---- other calls of the process --------------------------------------------------------------

    def connection_lost(self, connection: transport.Connection) -> None:
        """Handle the end of a connection over which work may have come."""
        self.core.connection_lost(connection)

    def peer_lost(self, process: bytes) -> None:
        """Handle the loss of the last connection to a process."""
        self.core.peer_lost(process, is_gone=self._runtime.owner.peers.is_here(process))

    def inputs_from(self, prefix: bytes) -> list[str]:
        """Return the files of a node's processes that waiting work will read."""
        return self.core.inputs_from(prefix)

    def tick(self, now: float) -> None:
        """Do the work that is due."""
        self.core.tick(now)

    def send_late(self) -> None:
        """Send the results that have waited long enough for other results."""
        self._outbox.send_late()

    # ---- the main thread ---------------------------------------------------------------------

    def serve(self) -> int:
        """Work until the process must stop. Returns the process's exit code."""
        core = self.core
        while not core.stopping or (self.actor is not None and not self.actor.is_drained):
            if core.is_set_up:
                if core.tasks:
                    self._run_next()
                    continue
                if self.actor is not None:
                    self._outbox.flush()
                    self.actor.setup_error = self._setup_error
                    return self.actor.serve()
            self._outbox.flush()
            waiter = Waiter()
            self._waiter = waiter
            if not (core.stopping or (core.is_set_up and (core.tasks or self.actor))):
                self._reactor.wait(waiter)
            self._waiter = None
        while True:
            waiter = self._waiter = Waiter()
            core.refuse_tasks()
            self._outbox.flush()
            if core.stopping != SPENT or not (self._references.lending or self._task_references):
                return 0
            # Other processes refer to objects of this process, which would be lost if it ended. As
            # with Ray, the process stays until no references are left. It holds no lease in that
            # time.
            self._reactor.wait(waiter, own_time() + _LOOK_AGAIN_S)

    def _run_next(self) -> None:
        entry = self.core.tasks.take()
        while entry is not None:
            entry = self._run_alike(entry)

    def _run_alike(self, entry: Entry) -> Entry | None:
        """Run a task, and the tasks of the same function that directly follow it. Returns the next
        task if it was already taken from the queue and has another function.
        """
        core, outbox = self.core, self._outbox
        connection, task = entry
        assert isinstance(connection, Connection)
        assert isinstance(task, Task)
        definition = core.functions.get(task.function)
        if definition is None:
            error = RuntimeError(f"the message had no function for task {task.name or task.number}")
            failure = self._results.failure(task.number, error, task.name, Began())
            outbox.post(connection, failure)
            return None
        outbox.flush_before(definition.mean_s)
        lease = core.lease_of(connection)
        of_process.lease = lease
        gang = lease.gang.env if lease.gang is not None else {}
        shows_each = bool(lease.devices or gang)
        if shows_each or definition.calls == 0 or self._devices.shows_gang:
            cpus = lease.resources.get("CPU", 1)
            self._devices.show(lease.devices, cpus, gang, lease.variables)
        else:
            self._devices.show_cpus(lease.resources.get("CPU", 1))
        token = current.set(None)
        core.running_for = connection
        try:
            while True:
                self._run_task(connection, task, definition, lease)
                if core.stopping or not core.tasks or (taken := core.tasks.take()) is None:
                    return None
                again, following = taken
                assert isinstance(following, Task)
                is_alike = again is connection and following.function == task.function
                if not is_alike or shows_each or core.lease_of(connection) is not lease:
                    return taken
                outbox.flush_before(definition.mean_s)
                task = following
        finally:
            core.running = None
            current.reset(token)

    def _run_task(
        self,
        connection: Connection,
        task: Task,
        definition: Definition,
        lease: LeaseInfo,
    ) -> None:
        core, number = self.core, task.number
        context = TaskContext(connection.peer, number, task.name, task.attempt, lease, False)
        of_process.task = context
        current.set(context)
        core.running = context
        self.interrupt_due = False
        started = Began()
        try:
            outcome = self._run(connection, task, definition, context, started)
        finally:
            core.running = None
        seconds = started.seconds()
        if context.adopted is not None:
            self._values.settle_borrows(context, connection)
        # This comes before the result is sent: an owner that has the result gives the lease back,
        # and others may then get it while this code still runs.
        core.ended(connection, definition, seconds)
        if isinstance(outcome, bytes):
            self._outbox.done(connection, number, outcome, started.wall, started.wall + seconds)
        else:
            self._outbox.post(connection, outcome)
        if self._children.by_parent:
            self._children.forget((connection.peer, number))

    @interruptible
    def _run(
        self,
        connection: Connection,
        task: Task,
        definition: Definition,
        context: TaskContext,
        started: Began,
    ) -> bytes | Done | Failed:
        """Run a task. Returns its answer, or only its result if that is a single pickle."""
        result: Any = None
        try:
            if definition.function is None:
                if self._setup_error is not None:
                    raise self._setup_error
                definition.function = _load(definition)
            context.function = definition.function
            args, kwargs = self._values.of(task, context)
            function = definition.function
            if CARRIED in kwargs:
                function = traced(function, definition.name, kwargs, context)
            if (profiling := profiler()) is not None:
                function = profiling.around(function, context)
            self._interruptible = True
            try:
                if context.is_cancelled:
                    raise KeyboardInterrupt
                result = function(*args, **kwargs)
                if task.returns == 1 and not isinstance(result, GeneratorType):
                    self._interruptible = False
                    del args, kwargs
                    value = self._values.pack(result, connection, task.number, definition.name)
                    if type(value) is bytes:
                        return value
                    return Done(task.number, value, started.wall, started.ended())
                return self._results.pack_many(connection, task, result, context, started)
            finally:
                self._interruptible = False
        except KeyboardInterrupt:
            # Requested by `cancel`, or raised by the task itself, but never an interrupt of the
            # reading thread.
            return Failed(task.number, b"", started.wall, started.ended(), "cancelled")
        except SystemExit as error:
            self._exit(connection, error)
        except BaseException as error:
            return self._results.failure(task.number, error, definition.name, started)

    def _exit(self, connection: Connection, error: SystemExit) -> NoReturn:
        """End the worker, because a task called sys.exit()."""
        self._outbox.flush()
        connection.drain_all(1.0)
        end_process(error, self._node)

    # ---- waiting inside a task ---------------------------------------------------------------

    def block(self) -> bool:
        """Mark the calling task as waiting. Returns whether the caller runs a task."""
        context = current.get()
        if context is None:
            return False
        if not context.is_actor:
            self.core.block()
        self._outbox.flush()
        return True

    def unblock(self) -> None:
        """Mark the calling task as running again."""
        context = current.get()
        if context is not None and not context.is_actor:
            self.core.unblock()


def _warn(text: str) -> None:
    print(f"phalanx: {text}: work here runs without it.", file=sys.stderr, flush=True)


def _load(definition: Definition) -> Any:
    try:
        return pickle.loads(definition.pickle)  # noqa: S301  # from the function's owner
    except Exception as error:
        raise RuntimeError(
            f"The function {definition.name} could not be loaded in a worker "
            f"({type(error).__name__}: {error}). A common cause is a module that only "
            "the driver can import: make it importable, or define the function in the main script."
        ) from error
