"""An actor with methods that are coroutines. Its calls run on an event loop, or on one for each
group.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from typing import Any

from phalanx.errors import AsyncioActorExit, WorkerExit
from phalanx.objects.reference import ObjectRef
from phalanx.protocol.messages import Call, Done, Message
from phalanx.runtime.worker.actor_host import LAST_CALLS_S, ActorHost, parts_of
from phalanx.runtime.worker.event_loops import cancelled, new_loop, start_loop
from phalanx.runtime.worker.run_times import Began
from phalanx.runtime.worker.traced import watched
from phalanx.worker import assigned
from phalanx.worker.assigned import Entry, Key
from phalanx.worker.context import TaskContext, current


class AsyncActorHost(ActorHost):
    """The only actor of this worker, if it has methods that are coroutines."""

    is_async = True

    _over: asyncio.Event
    """Set when the actor has ended. It is used if the actor has only one loop."""

    def __init__(self, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._loop: asyncio.AbstractEventLoop | None = None
        """The only loop of an actor without groups."""
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        """The loops of an actor that has groups, by group."""
        self._tasks: dict[Key, asyncio.Task[Any]] = {}
        self._flush_planned = False

    def _serve(self) -> int:
        return self._serve_on_loops() if self._creation.groups else self._serve_on_loop()

    def drain(self) -> None:
        """End after the calls that have arrived are done."""
        self._draining = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_if_drained)
        self._wake()

    def receive(self, connection: assigned.Connection, calls: Iterable[Call]) -> None:
        """Handle new calls. This runs in the thread that leads the reactor."""
        if self._loop is None:
            super().receive(connection, calls)
            return
        for call in calls:
            self._begin_async((connection, call))

    def cancel(self, key: Key) -> None:
        """Cancel a call, because its caller no longer wants the result."""
        super().cancel(key)
        task = self._tasks.get(key)
        if task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)

    def _begin_end(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._end_if_drained)
            loop.call_soon_threadsafe(loop.call_later, LAST_CALLS_S, self._over.set)
        super()._begin_end()

    # ---- on an event loop for each group -----------------------------------------------------

    def _serve_on_loops(self) -> int:
        """Serve with an event loop for each group, in a thread of its own.

        So a call that blocks delays only its own group.
        """
        self._loops = {group: start_loop() for group in self._calls.groups}
        made = asyncio.run_coroutine_threadsafe(self._construct(), self._loops[""])
        if not made.result():
            return self._end_unmade()
        self._serve_threads()
        self._finish()
        return 0

    def _begin(self, group: str, entry: Entry, needed: int) -> None:
        loop = self._loops[group]
        loop.call_soon_threadsafe(self._spawn, entry, loop)

    # ---- on one event loop -------------------------------------------------------------------

    def _serve_on_loop(self) -> int:
        loop = new_loop()
        asyncio.set_event_loop(loop)
        self._over = asyncio.Event()
        try:
            return loop.run_until_complete(self._async_main(loop))
        finally:
            asyncio.set_event_loop(None)

    async def _async_main(self, loop: asyncio.AbstractEventLoop) -> int:
        if not await self._construct():
            return self._end_unmade()
        with self._reactor.lead_on(loop):
            self._loop = loop
            while (entry := self._calls.received.take()) is not None:
                self._begin_async(entry)
            self._end_if_drained()
            await self._over.wait()
        self._finish()
        return 0

    def _begin_async(self, entry: Entry) -> None:
        if not self._exit_reason and self._calls.admit(entry):
            assert self._loop is not None
            self._spawn(entry, self._loop)

    def _spawn(self, entry: Entry, loop: asyncio.AbstractEventLoop) -> None:
        connection, call = parts_of(entry)
        # Done now, because the call may be cancelled before it begins.
        context = self._context(connection, call)
        loop.create_task(self._run_async(entry, (connection.peer, call.number), context))

    async def _run_async(self, entry: Entry, key: Key, context: TaskContext) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[key] = task
        connection, call = parts_of(entry)
        current.set(context)  # the asyncio task has its own copy of the context
        values = self._values
        started = Began()
        message: Message | None
        try:
            self._check(call, context)
            method = self._methods.find(call.method)
            args, kwargs = values.of(call, context)
            run = watched(method, context.name, kwargs, context)
            result = run(*args, **kwargs)
            # The reference is dropped, so that an ending actor releases its instance at once.
            del args, kwargs, run, method
            # A reference can be awaited, too, but if a method returns a reference, the method
            # passes it on.
            if inspect.isawaitable(result) and not isinstance(result, ObjectRef):
                result = await result
            _check_end(context)
            if inspect.isasyncgen(result):
                message = await self._results.stream_async(
                    connection, call, result, context, started
                )
            elif call.returns == 1 and not inspect.isgenerator(result):
                value = values.pack(result, connection, call.number, context.name)
                message = Done(call.number, value, started.wall, started.ended())
            else:
                message = self._results.pack_many(connection, call, result, context, started)
        except AsyncioActorExit:
            message = self._leaving(call, WorkerExit(), started)
        except SystemExit as error:
            message = self._leaving(call, error, started)
        except BaseException as error:
            message = self._failure(call, error, context, started)
        finally:
            self._ended(key)
            self._tasks.pop(key, None)
        if context.adopted is not None:
            values.settle_borrows(context, connection)
        if message is not None:
            self._outbox.post(connection, message)
        self._plan_flush()
        with self._admitting:
            following = self._following(entry)
        if following is not None:
            self._spawn(following, task.get_loop())
        if self._exit_reason or self._draining:
            self._end_if_drained()

    def _check(self, call: Call, context: TaskContext) -> None:
        """Raise an error for a call that should not run."""
        if context.is_cancelled:
            raise cancelled()
        self._calls.check_group(call, self._creation.class_name)

    def _plan_flush(self) -> None:
        if self._loop is None:
            self._outbox.flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_planned = False
        self._outbox.flush()

    def _end_if_drained(self) -> None:
        if self._loop is None:
            self._wake()
        elif (self._exit_reason and not self._calls.are_running) or (
            self._draining and self._calls.is_idle
        ):
            self._over.set()


def _check_end(context: TaskContext) -> None:
    """Raise the exit or the cancellation of a call again, in case user code has caught it. Nobody
    wants the call's result.
    """
    if context.leaves:
        raise WorkerExit
    if context.is_cancelled:
        raise cancelled()
