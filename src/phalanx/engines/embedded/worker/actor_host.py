"""An actor inside its worker: construction, and calls in order, in threads, or on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.engines.embedded.client.registration import Creation
from phalanx.errors import AsyncioActorExit, WorkerExit
from phalanx.objects import failures
from phalanx.protocol.messages import Call, Done, Failed, Message
from phalanx.protocol.node_messages import ActorFailed, ActorReady, CreateActor
from phalanx.worker.context import LeaseInfo, TaskContext, current

if TYPE_CHECKING:
    from phalanx.engines.embedded.worker.executor import WorkerExecutor
    from phalanx.engines.processes.connection import Connection

_SHUTDOWN_S = 30.0
Entry = tuple["Connection", Call]


class _Group:
    """A concurrency group of an actor: its limit, what runs, what waits."""

    __slots__ = ("limit", "queue", "running", "threads", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: deque[Entry] = deque()
        self.queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self.threads: list[threading.Thread] = []


class ActorHost:
    """The one actor of this worker."""

    def __init__(self, executor: WorkerExecutor, message: CreateActor) -> None:
        self._executor = executor
        self._runtime = executor.runtime
        self._message = message
        self.actor = message.actor
        self._creation = msgspec.msgpack.decode(message.creation, type=Creation)
        self.lease = LeaseInfo(
            message.job,
            message.resources,
            message.devices,
            message.placement_group,
            message.capture,
            message.gang,
        )
        self.instance: Any = None
        self.restarted = message.incarnation > 0
        self.name = message.name
        self.namespace = message.namespace
        self._calls: deque[Entry] = deque()
        self._waiter: Waiter | None = None
        self._is_async = self._creation.is_async
        self._groups: dict[str, _Group] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[tuple[bytes, int], asyncio.Task[Any]] = {}
        self._contexts: dict[tuple[bytes, int], TaskContext] = {}
        self._flush_planned = False
        self._exit_reason = ""
        self.is_drained = False
        self._draining = False
        self._busy = 0
        self._method_groups: dict[str, str] = {}
        self._means: dict[str, float] = {}

    # ---- life --------------------------------------------------------------------------------

    def serve(self) -> int:
        """Construct the actor and run its calls until it ends; the exit code."""
        threaded = not self._is_async and (
            self._creation.max_concurrency > 1 or bool(self._creation.groups)
        )
        gang = self.lease.gang
        cpus = self.lease.resources.get("CPU", 1)
        self._executor.devices.show(self.lease.devices, cpus, gang.env if gang else None)
        self._groups[""] = _Group(self._creation.max_concurrency)
        for group, limit in self._creation.groups.items():
            self._groups[group] = _Group(limit)
        if self._is_async:
            return self._serve_async()
        if not self._construct():
            return self._wait_for_end()
        if threaded:
            self._serve_threads()
        else:
            self._serve_in_order()
        self._finish()
        return 0

    def _construct(self) -> bool:
        creation = self._creation
        context = TaskContext(b"", 0, f"{creation.class_name}.__init__", 0, self.lease, True)
        token = current.set(context)
        try:
            cls = pickle.loads(creation.class_pickle)  # noqa: S301  (from our owner)
            args, kwargs = self._executor.values.constructor_arguments(creation, context)
            for name in dir(cls):
                options = getattr(getattr(cls, name, None), "__phalanx_method__", None)
                if options and options.get("concurrency_group"):
                    self._method_groups[name] = options["concurrency_group"]
            self.instance = cls.__new__(cls)
            self.instance.__init__(*args, **kwargs)
            del args, kwargs
        except BaseException as error:
            name = f"{creation.class_name}.__init__"
            data = failures.describe(error, name, os.getpid(), None)
            self._runtime.node.send(ActorFailed(self.actor, data))
            return False
        finally:
            current.reset(token)
        if context.adopted is not None:
            # The creator keeps these for as long as the actor lives.
            with self._runtime.lock:
                references = self._runtime.references
                for owner, number in context.adopted:
                    ref = references.still_borrowed(owner, number)
                    if ref is not None:
                        references.keep(ref)
        self._runtime.node.send(ActorReady(self.actor))
        return True

    def _wait_for_end(self) -> int:
        self._runtime.reactor.wait(Waiter(), time.monotonic() + 5)
        return 1

    def drain(self) -> None:
        """End once the calls that have come are done."""
        self._draining = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_if_drained)
        self._wake()

    def _finish(self) -> None:
        """The graceful end: the user's hook, the last results."""
        hook = getattr(self.instance, "__phalanx_shutdown__", None) or getattr(
            self.instance, "__ray_shutdown__", None
        )
        if hook is not None:
            thread = threading.Thread(target=hook, daemon=True)
            thread.start()
            thread.join(_SHUTDOWN_S)
        self.is_drained = True
        self._executor.flush()
        for connection in list(self._runtime.connections()):
            connection.drain_all(1.0)

    # ---- calls come --------------------------------------------------------------------------

    def waiting(self) -> list[Call]:
        """Calls that nobody has begun, as far as they stand in one line."""
        return [call for _, call in list(self._calls)]

    def receive(self, connection: Connection, call: Call) -> None:
        """A call came (in whichever thread leads the reactor)."""
        if self._loop is not None:
            self._start_async(connection, call)
        else:
            self._calls.append((connection, call))
            self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            waiter.finish()

    def cancel(self, key: tuple[bytes, int]) -> None:
        """A caller does not want this call any more."""
        for entry in list(self._calls):
            if (entry[0].peer, entry[1].number) == key:
                try:
                    self._calls.remove(entry)
                except ValueError:
                    break
                now = time.time()
                self._executor.post_result(entry[0], Failed(key[1], b"", now, now, "cancelled"))
                self._executor.flush()
                return
        context = self._contexts.get(key)
        if context is not None:
            context.is_cancelled = True
        task = self._tasks.get(key)
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    def _group_of(self, call: Call) -> _Group:
        name = call.group or self._method_groups.get(call.method, "")
        return self._groups.get(name) or self._groups[""]

    def _check_group(self, call: Call) -> None:
        if call.group and call.group not in self._groups:
            known = ", ".join(sorted(g for g in self._groups if g)) or "none"
            raise ValueError(
                f"{self._creation.class_name} has no concurrency group {call.group!r}; it has: "
                f"{known}."
            )

    # ---- one after another -------------------------------------------------------------------

    def _serve_in_order(self) -> None:
        executor = self._executor
        while not self._exit_reason:
            if self._calls:
                connection, call = self._calls.popleft()
                mean = self._means.get(call.method, 1.0)
                executor.flush_before(mean)
                started = time.time()
                message = self._run(connection, call)
                self._means[call.method] = mean + 0.2 * (time.time() - started - mean)
                executor.post_result(connection, message)
                continue
            executor.flush()
            if self._draining:
                return
            waiter = Waiter()
            self._waiter = waiter
            if not self._calls and not self._draining:
                self._runtime.reactor.wait(waiter)
            self._waiter = None

    def _context(self, connection: Connection, call: Call) -> TaskContext:
        name = f"{self._creation.class_name}.{call.method}"
        context = TaskContext(connection.peer, call.number, name, call.attempt, self.lease, True)
        self._contexts[(connection.peer, call.number)] = context
        return context

    def _run(self, connection: Connection, call: Call) -> Message:
        context = self._context(connection, call)
        token = current.set(context)
        started = time.time()
        executor = self._executor
        try:
            self._check_group(call)
            method = self._method(call.method)
            args, kwargs = executor.values.arguments(call.args, call.inputs, context)
            result = method(*args, **kwargs)
            del args, kwargs
            if call.returns == 1 and not inspect.isgenerator(result):
                value = executor.values.pack(result, connection, call.number, context.name)
                message: Message = Done(call.number, value, started, time.time())
            else:
                message = executor.results.pack_many(connection, call, result, context, started)
        except (WorkerExit, SystemExit) as error:
            message = self._leaving(call, error, started)
        except BaseException as error:
            message = self._failure(call, error, context, started)
        finally:
            current.reset(token)
            self._contexts.pop((connection.peer, call.number), None)
            self._runtime.tasks.children.pop((connection.peer, call.number), None)
        if context.adopted is not None:
            executor.values.settle_borrows(context, connection)
        return message

    def _failure(
        self, call: Call, error: BaseException, context: TaskContext, started: float
    ) -> Message:
        asked = context.is_cancelled and isinstance(error, asyncio.CancelledError)
        if asked or isinstance(error, KeyboardInterrupt):
            return Failed(call.number, b"", started, time.time(), "cancelled")
        try:
            actor_repr = repr(self.instance)
        except Exception:
            actor_repr = f"{self._creation.class_name}(?)"
        return self._executor.results.failure(call.number, error, context.name, started, actor_repr)

    def _leaving(self, call: Call, error: BaseException, started: float) -> Message:
        reason = "The actor died because it called exit_actor()."
        if not isinstance(error, WorkerExit):
            reason = f"The actor died because a method raised SystemExit({error})."
        self._exit_reason = reason
        self._executor.exit_actor(reason)
        return Failed(call.number, b"", started, time.time(), "exit")

    def _method(self, name: str) -> Any:
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_call__":
            return lambda function, *args, **kwargs: function(self.instance, *args, **kwargs)
        if name == "__ray_terminate__":
            raise WorkerExit
        return getattr(self.instance, name)

    # ---- in threads --------------------------------------------------------------------------

    def _serve_threads(self) -> None:
        executor = self._executor
        while not self._exit_reason:
            while self._calls:
                connection, call = self._calls.popleft()
                self._hand_to_thread(connection, call)
            if self._draining and not self._busy:
                break
            waiter = Waiter()
            self._waiter = waiter
            executor.flush()
            if not (self._calls or self._exit_reason or (self._draining and not self._busy)):
                self._runtime.reactor.wait(waiter)
            self._waiter = None

    def _hand_to_thread(self, connection: Connection, call: Call) -> None:
        group = self._group_of(call)
        self._busy += 1
        if len(group.threads) < group.limit and len(group.threads) < self._busy:
            thread = threading.Thread(target=self._thread, args=(group,), daemon=True)
            group.threads.append(thread)
            thread.start()
        group.queue.put((connection, call))

    def _thread(self, group: _Group) -> None:
        executor = self._executor
        while True:
            entry = group.queue.get()
            if entry is None:
                return
            connection, call = entry
            executor.post_result(connection, self._run(connection, call))
            if group.queue.empty() or self._exit_reason:
                executor.flush()
            else:
                executor.flush_before(1.0 if self._busy < 8 else 0.0)
            self._busy -= 1
            if self._exit_reason or self._draining:
                self._wake()

    # ---- on an event loop --------------------------------------------------------------------

    def _serve_async(self) -> int:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._ended = asyncio.Event()
        try:
            return loop.run_until_complete(self._async_main(loop))
        finally:
            asyncio.set_event_loop(None)

    async def _async_main(self, loop: asyncio.AbstractEventLoop) -> int:
        if not self._construct():
            return self._wait_for_end()
        with self._runtime.reactor.lead_on(loop):
            self._loop = loop
            while self._calls:
                self._start_async(*self._calls.popleft())
            self._end_if_drained()
            await self._ended.wait()
        self._finish()
        return 0

    def _start_async(self, connection: Connection, call: Call) -> None:
        group = self._group_of(call)
        if group.running >= group.limit:
            group.waiting.append((connection, call))
            return
        self._spawn(group, connection, call)

    def _spawn(self, group: _Group, connection: Connection, call: Call) -> None:
        assert self._loop is not None
        group.running += 1
        self._busy += 1
        key = (connection.peer, call.number)
        self._tasks[key] = self._loop.create_task(self._run_async(group, connection, call, key))

    async def _run_async(
        self, group: _Group, connection: Connection, call: Call, key: tuple[bytes, int]
    ) -> None:
        context = self._context(connection, call)
        current.set(context)  # the task has a copy of the context to itself
        executor = self._executor
        started = time.time()
        message: Message
        try:
            self._check_group(call)
            method = self._method(call.method)
            args, kwargs = executor.values.arguments(call.args, call.inputs, context)
            result = method(*args, **kwargs)
            del args, kwargs
            if inspect.isawaitable(result):
                result = await result
            if inspect.isasyncgen(result):
                message = await self._stream_async(connection, call, result, context, started)
            elif call.returns == 1 and not inspect.isgenerator(result):
                value = executor.values.pack(result, connection, call.number, context.name)
                message = Done(call.number, value, started, time.time())
            else:
                message = executor.results.pack_many(connection, call, result, context, started)
        except (WorkerExit, AsyncioActorExit, SystemExit) as error:
            exiting = WorkerExit() if isinstance(error, AsyncioActorExit) else error
            message = self._leaving(call, exiting, started)
        except BaseException as error:
            message = self._failure(call, error, context, started)
        finally:
            self._contexts.pop(key, None)
            self._runtime.tasks.children.pop(key, None)
            self._tasks.pop(key, None)
        if context.adopted is not None:
            executor.values.settle_borrows(context, connection)
        connection.post(message)
        executor.posted(connection)
        self._plan_flush()
        group.running -= 1
        self._busy -= 1
        if group.waiting:
            self._spawn(group, *group.waiting.popleft())
        if self._exit_reason or self._draining:
            self._end_if_drained()

    async def _stream_async(
        self, connection: Connection, call: Call, result: Any, context: TaskContext, started: float
    ) -> Message:
        if call.returns >= 0:
            raise TypeError(
                f"{context.name} is an async generator: use num_returns='streaming' to read it."
            )
        key = (connection.peer, call.number)
        self._executor.track(key, context)
        index = 0
        try:
            async for value in result:
                index += 1
                self._executor.results.send_item(connection, call, index, value, context)
                while 0 <= call.backpressure <= index - context.consumed:
                    self._executor.flush()
                    await asyncio.sleep(0.001)
        finally:
            self._executor.untrack(key)
        return Done(call.number, pickle.dumps(index), started, time.time())

    def _plan_flush(self) -> None:
        if not self._flush_planned and self._loop is not None:
            self._flush_planned = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_planned = False
        self._executor.flush()

    def _end_if_drained(self) -> None:
        if self._exit_reason or (self._draining and not self._busy):
            self._ended.set()
