"""An actor in its worker: its construction, its calls in order or in threads, and its end."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Coroutine, Iterable
from types import GeneratorType
from typing import Any, NoReturn

from phalanx.errors import AsyncioActorExit, RuntimeEnvSetupError, WorkerExit
from phalanx.objects import failures
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import Call, Done, Failed, Message, Payload
from phalanx.protocol.node_messages import ActorFailed, ActorLeaving, ActorReady, CreateActor
from phalanx.runtime.driver.reactor import Waiter
from phalanx.runtime.driver.runtime import Runtime
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.own_pid import own_pid
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.worker.actor_groups import GroupThreads
from phalanx.runtime.worker.actor_methods import ActorMethods
from phalanx.runtime.worker.devices import DeviceEnvironment
from phalanx.runtime.worker.ending import end_process
from phalanx.runtime.worker.event_loops import (
    is_cancellation,
    is_inside_loop,
)
from phalanx.runtime.worker.result_outbox import ResultOutbox
from phalanx.runtime.worker.run_times import Began
from phalanx.runtime.worker.task_results import TaskResults
from phalanx.runtime.worker.task_values import TaskValues
from phalanx.runtime.worker.traced import watched
from phalanx.worker import assigned
from phalanx.worker.actor_calls import ActorCalls
from phalanx.worker.assigned import AssignedWork, Entry, Key
from phalanx.worker.context import TaskContext, current, lease_info, of_process

_SHUTDOWN_S = 30.0
LAST_CALLS_S = 30.0
"""The longest time, in seconds, for which an ending actor waits for the calls that still run. (Some
calls never end.)
"""
_LONGEST_NAME = 256
_EXIT_ACTOR = "The actor died because it called exit_actor()."


class ActorHost:
    """The only actor of this worker, if its methods are no coroutines."""

    is_async = False

    def __init__(
        self,
        message: CreateActor,
        creation: Creation,
        runtime: Runtime,
        *,
        values: TaskValues,
        results: TaskResults,
        outbox: ResultOutbox,
        devices: DeviceEnvironment,
    ) -> None:
        self._node = runtime.node
        self._reactor = runtime.reactor
        self._peers = runtime.owner.peers
        self._children = runtime.owner.children
        self._values = values
        self._results = results
        self._outbox = outbox
        self._devices = devices
        self.actor = message.actor
        self._creation = creation
        self._lease = lease_info(message)
        self._instance: Any = None
        self.restarted = message.lived_before
        self.name = message.name
        self._calls = ActorCalls(creation.max_concurrency, creation.groups, time.time)
        self._waiter: Waiter | None = None
        self._pools = GroupThreads(self._run_in_thread)
        self._admitting = threading.Lock()
        """Guards the groups of an actor with several threads."""
        self._exit_reason = ""
        self._crash: SystemExit | None = None
        """The exit with which the process must end, if it is a crash; otherwise None."""
        self.is_drained = False
        """Whether the actor has ended and all its results were sent."""
        self._draining = False
        self._means: dict[str, float] = {}
        self._names: dict[str, str] = {}
        """The names of methods in listings and errors."""
        self._methods = ActorMethods(None)
        self.setup_error: RuntimeEnvSetupError | None = None
        """The error of the job's setup hook, because of which the actor is not constructed; None if
        the hook raised no error.
        """

    def path_of(self, method: str) -> str:
        """Return the module, class and name of a method."""
        return self._methods.path_of(method, self.is_async)

    # ---- life --------------------------------------------------------------------------------

    def serve(self) -> int:
        """Construct the actor and run its calls until it ends. Returns the exit code."""
        of_process.lease = of_process.actor = self._lease
        gang = self._lease.gang
        cpus = self._lease.resources.get("CPU", 1)
        variables = gang.env if gang else None
        self._devices.show(self._lease.devices, cpus, variables, self._lease.variables)
        return self._serve()

    def _serve(self) -> int:
        if not _result_of(self._construct()):
            return self._end_unmade()
        if self._creation.max_concurrency > 1 or self._creation.groups:
            self._serve_threads()
        else:
            self._serve_in_order()
        self._finish()
        return 0

    async def _construct(self) -> bool:
        """Construct the instance. Returns whether that succeeded.

        If the constructor returns an awaitable, this method awaits it.
        """
        creation = self._creation
        context = TaskContext(b"", 0, f"{creation.class_name}.__init__", 0, self._lease, True)
        token = current.set(context)
        try:
            if self.setup_error is not None:
                raise self.setup_error
            cls = pickle.loads(creation.class_pickle)  # noqa: S301  # from the actor's owner
            args, kwargs = self._values.constructor_arguments(creation, context)
            for name in dir(cls):
                options = getattr(getattr(cls, name, None), "__phalanx_method__", None)
                if options and options.get("concurrency_group"):
                    self._calls.method_groups[name] = options["concurrency_group"]
            self._instance = cls.__new__(cls)
            self._methods = ActorMethods(self._instance)
            begin = watched(self._instance.__init__, context.name, kwargs, context)
            made = begin(*args, **kwargs)
            del args, kwargs
            if inspect.isawaitable(made):
                await made
        except BaseException as error:
            if self._exit_reason:
                return False
            name = f"{creation.class_name}.__init__"
            data = failures.describe(error, name, own_pid(), None)
            # Perhaps no call comes that would raise the error, so it is also printed.
            print(
                f"The actor cannot be made: {failures.failure_text(data)}",
                file=sys.stderr,
                flush=True,
            )
            self._node.send(ActorFailed(self.actor, data))
            return False
        finally:
            current.reset(token)
        self._values.keep_arguments(context)
        self._node.send(ActorReady(self.actor, _own_name(self._instance)))
        return True

    def _end_unmade(self) -> int:
        """End an actor whose constructor raised an error or called exit_actor. Returns the exit
        code.
        """
        if self._exit_reason:
            self._finish()
            return 0
        self._reactor.wait(Waiter(), own_time() + 5)
        return 1

    def drain(self) -> None:
        """End after the calls that have arrived are done."""
        self._draining = True
        self._wake()

    def _finish(self) -> None:
        """End the actor: send the last results, then run the user's hook (unless the end is a
        crash) and `__del__`.
        """
        self._outbox.flush()
        if self._crash is not None:
            self._say_all()
            end_process(self._crash, self._node)
        hook = getattr(self._instance, "__phalanx_shutdown__", None) or getattr(
            self._instance, "__ray_shutdown__", None
        )
        if hook is not None:
            thread = threading.Thread(target=hook, daemon=True)
            thread.start()
            thread.join(_SHUTDOWN_S)
        del hook
        self.is_drained = True
        self._outbox.flush()
        self._say_all()
        self._release_instance()

    def _release_instance(self) -> None:
        """Release the instance, and everything that only the instance holds.

        The process ends without the usual end of an interpreter, which would run `__del__` and
        write the buffers of files. So both happen here, and may take as long as the hook.
        """
        late = threading.Timer(_SHUTDOWN_S, os._exit, [0])
        late.daemon = True
        late.start()
        self._instance = None
        self._methods = ActorMethods(None)
        gc.collect()
        late.cancel()
        self._outbox.flush()
        self._say_all()

    def _say_all(self) -> None:
        for connection in (self._node.connection, *self._peers.all()):
            assert isinstance(connection, Connection)
            connection.drain_all(1.0)

    # ---- calls come --------------------------------------------------------------------------

    def waiting(self) -> list[AssignedWork]:
        """Return the calls that have not begun."""
        return self._calls.waiting()

    def receive(self, connection: assigned.Connection, calls: Iterable[Call]) -> None:
        """Handle new calls. This runs in the thread that leads the reactor."""
        received = self._calls.received
        for call in calls:
            received.append((connection, call))
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.finish()

    def cancel(self, key: Key) -> None:
        """Cancel a call, because its caller no longer wants the result."""
        self._calls.cancel(key)

    # ---- one after another -------------------------------------------------------------------

    def _serve_in_order(self) -> None:
        received, outbox = self._calls.received, self._outbox
        while not self._exit_reason:
            if (entry := received.take()) is not None:
                connection, call = parts_of(entry)
                mean = self._means.get(call.method, 1.0)
                outbox.flush_before(mean)
                seconds = self._run(connection, call)
                self._means[call.method] = mean + 0.2 * (seconds - mean)
                continue
            outbox.flush()
            if self._draining:
                return
            waiter = Waiter()
            self._waiter = waiter
            # A thread that the actor started may have ended the actor before there was a waiter to
            # wake.
            if not (received or self._draining or self._exit_reason):
                self._reactor.wait(waiter)
            self._waiter = None

    def _context(self, connection: Connection, call: Call) -> TaskContext:
        method = call.method
        name = call.name or self._names.get(method)
        if name is None:
            name = self._names[method] = f"{self._creation.class_name}.{method}"
        context = TaskContext(
            connection.peer, call.number, name, call.attempt, self._lease, True, None, method
        )
        of_process.task = context
        self._calls.contexts[(connection.peer, call.number)] = context
        return context

    def _ended(self, key: Key) -> None:
        self._calls.contexts.pop(key, None)
        if self._children.by_parent:
            self._children.forget(key)

    def _run(self, connection: Connection, call: Call) -> float:
        """Run a call, and post its answer. Returns the seconds that it took."""
        context = self._context(connection, call)
        token = current.set(context)
        started = Began()
        values = self._values
        value: Payload | None = None
        message: Message | None = None
        try:
            if call.group:
                self._calls.check_group(call, self._creation.class_name)
            method = self._methods.find(call.method)
            args, kwargs = values.of(call, context)
            run = watched(method, context.name, kwargs, context)
            result = run(*args, **kwargs)
            del args, kwargs
            if context.leaves:  # user code caught the error that exit_actor raised
                raise WorkerExit
            # The method may have noticed the cancellation and ended early, so its result is not
            # used.
            if context.is_cancelled:
                raise KeyboardInterrupt
            if call.returns == 1 and not isinstance(result, GeneratorType):
                value = values.pack(result, connection, call.number, context.name)
            else:
                message = self._results.pack_many(connection, call, result, context, started)
        except SystemExit as error:
            message = self._leaving(call, error, started)
        except BaseException as error:
            message = self._failure(call, error, context, started)
        finally:
            current.reset(token)
            self._ended((connection.peer, call.number))
        seconds = started.seconds()
        if context.adopted is not None:
            values.settle_borrows(context, connection)
        if type(value) is bytes:
            ended = started.wall + seconds
            self._outbox.done(connection, call.number, value, started.wall, ended)
        elif value is not None:
            message = Done(call.number, value, started.wall, started.wall + seconds)
        if message is not None:
            self._outbox.post(connection, message)
        return seconds

    def _failure(
        self, call: Call, error: BaseException, context: TaskContext, started: Began
    ) -> Message:
        asked = context.is_cancelled and is_cancellation(error)
        if asked or isinstance(error, KeyboardInterrupt):
            return Failed(call.number, b"", started.wall, started.ended(), "cancelled")
        try:
            actor_repr = repr(self._instance)
        except Exception:
            actor_repr = f"{self._creation.class_name}(?)"
        return self._results.failure(call.number, error, context.name, started, actor_repr)

    def _leaving(self, call: Call, error: SystemExit, started: Began) -> Message | None:
        """Return the answer to a call that raised SystemExit; None if the call has no answer.

        As in Ray, exit_actor and an exit with code 0 are intended, and any other exit is a crash. A
        call that ends by a crash has no answer: its caller notices the end of the process, and
        decides whether to try again.
        """
        if not isinstance(error, WorkerExit):
            if error.code != 0:
                self._end_by_crash(error)
                return None
            self._leave("The actor died because a method raised SystemExit(0).")
        elif not self._exit_reason:  # the call was a plain __ray_terminate__
            self._leave(_EXIT_ACTOR)
        return Failed(call.number, b"", started.wall, started.ended(), "exit")

    def _end_by_crash(self, error: SystemExit) -> None:
        if not self._exit_reason:
            self._exit_reason = f"a method raised SystemExit({error.code})"
            self._crash = error
            self._begin_end()

    def leave(self) -> NoReturn:
        """End the actor, because the calling method or a thread of the actor requests it."""
        context = current.get()
        if context is not None:
            context.leaves = True
        self._leave(_EXIT_ACTOR)
        if is_inside_loop():
            raise AsyncioActorExit("exit_actor() was called.")
        # This is a thread that the actor started, where a plain SystemExit ends only the thread.
        if context is None:
            raise SystemExit(0)
        raise WorkerExit(0)

    def _leave(self, reason: str) -> None:
        if self._exit_reason:
            return
        self._exit_reason = reason
        self._node.send(ActorLeaving(self.actor, reason))
        self._begin_end()

    def _begin_end(self) -> None:
        """Wake the main thread, which then waits for the running calls. Calls that have not begun
        never run: their callers are told that the actor has ended.
        """
        self._wake()

    # ---- in threads --------------------------------------------------------------------------

    def _serve_threads(self) -> None:
        received = self._calls.received
        while not self._exit_reason:
            while (entry := received.take()) is not None:
                self._hand_to_thread(entry)
            if self._draining and self._calls.is_idle:
                break
            waiter = Waiter()
            self._waiter = waiter
            self._outbox.flush()
            is_over = self._exit_reason or (self._draining and self._calls.is_idle)
            if not (received or is_over):
                self._reactor.wait(waiter)
            self._waiter = None
        self._await_last_calls()

    def _await_last_calls(self) -> None:
        """Wait until the running calls have ended, for at most LAST_CALLS_S, and send their
        results.
        """
        deadline = own_time() + LAST_CALLS_S
        while self._calls.are_running and own_time() < deadline:
            waiter = Waiter()
            self._waiter = waiter
            self._outbox.flush()
            if self._calls.are_running:
                self._reactor.wait(waiter, deadline)
            self._waiter = None

    def _hand_to_thread(self, entry: Entry) -> None:
        with self._admitting:
            if self._exit_reason or not self._calls.admit(entry):
                return
            group = self._calls.group_of(entry)
            needed = self._calls.running(group)
        self._begin(group, entry, needed)

    def _begin(self, group: str, entry: Entry, needed: int) -> None:
        """Begin a call of a group. `needed`: the number of running calls in the group, including
        this one.
        """
        self._pools.hand(group, entry, needed)

    def _run_in_thread(self, group: str, first: Entry) -> None:
        entry: Entry | None = first
        while entry is not None:
            connection, call = parts_of(entry)
            self._run(connection, call)
            with self._admitting:
                entry = self._following(entry)
            if entry is None or self._exit_reason:
                self._outbox.flush()
            else:
                self._outbox.flush_before(1.0 if self._calls.running(group) < 8 else 0.0)
            if self._exit_reason or self._draining:
                self._wake()

    def _following(self, entry: Entry) -> Entry | None:
        """Note that a call has ended. Returns the waiting call that begins in its place, if there
        is one.
        """
        if self._exit_reason:
            self._calls.drop_waiting()
        return self._calls.finished(entry)


def _result_of(construction: Coroutine[Any, Any, bool]) -> bool:
    """Run a coroutine that never waits, and return its result. Raises RuntimeError if the coroutine
    waits.
    """
    try:
        construction.send(None)
    except StopIteration as end:
        return bool(end.value)
    raise RuntimeError("only an async actor's constructor can wait")


def parts_of(entry: Entry) -> tuple[Connection, Call]:
    connection, call = entry
    assert isinstance(connection, Connection)
    assert isinstance(call, Call)
    return connection, call


def _own_name(instance: Any) -> str:
    """Return the name that the actor's class gives it in listings; "" if the class gives none."""
    if not any("__repr__" in vars(cls) for cls in type(instance).__mro__[:-1]):
        return ""
    try:
        return str(repr(instance))[:_LONGEST_NAME]
    except Exception:
        return ""
