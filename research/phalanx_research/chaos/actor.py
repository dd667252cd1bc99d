"""A simulated worker process that has become an actor."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import Any, Protocol

import msgspec

from phalanx.objects.reference import ObjectRef
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import Call, Task
from phalanx.protocol.node_messages import ActorReady, CreateActor
from phalanx.worker.actor_calls import ActorCalls
from phalanx.worker.assigned import AssignedWork, Connection, Entry, Key
from phalanx.worker.context import TaskContext, lease_info
from phalanx_research.chaos.network import End
from phalanx_research.chaos.promises import Promises, Worker
from phalanx_research.chaos.running import Body, Running

CONSTRUCT_S = 0.01


class ActorProcess(Worker, Protocol):
    """The part of the worker process that its actor uses."""

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Run an action after this delay, if the process is still alive."""
        ...

    def code(
        self,
        connection: Connection,
        message: Task | Call,
        context: TaskContext,
        started: Callable[[], None],
        kept: list[ObjectRef[Any]],
    ) -> Body:
        """Run a call's code. Returns the outcome as a message; None if the process must die."""
        ...

    def finish(self, connection: Connection, context: TaskContext, message: Any) -> bool:
        """Send a call's outcome. Returns False if the process then ends."""
        ...


class SimActor:
    """The actor of one worker process."""

    def __init__(
        self,
        order: CreateActor,
        worker: ActorProcess,
        node: End,
        clock: Callable[[], float],
        promises: Promises,
        interruptible: Container[TaskContext],
    ) -> None:
        """`node` is the connection to the actor's node. `interruptible` has the calls whose code
        has started.
        """
        self.order = order
        self._worker = worker
        self._node = node
        self._promises = promises
        self._interruptible = interruptible
        self._creation = msgspec.msgpack.decode(order.creation, type=Creation)
        self._calls = ActorCalls(self._creation.max_concurrency, self._creation.groups, clock)
        self._is_concurrent = self._creation.max_concurrency > 1 or bool(self._creation.groups)
        self._lease = lease_info(order)
        self._runs: dict[Key, Running] = {}
        self._kept: list[ObjectRef[Any]] = []
        self._is_begun = self.is_constructed = False
        self._is_draining = False

    @property
    def is_drained(self) -> bool:
        """Whether the actor can end, because no call runs."""
        return self._is_draining and self._calls.is_idle and not self._runs

    def go_on(self) -> None:
        """Start the calls that may start now."""
        if not self._is_begun:
            self._is_begun = True
            self._promises.actor_begun(self._worker, self.order)
            self._worker.later(CONSTRUCT_S, self._constructed)
        if not self.is_constructed:
            return
        if self._is_concurrent:
            while (entry := self._calls.received.take()) is not None:
                if self._calls.admit(entry):
                    self._begin(entry)
        else:
            while not self._runs and (entry := self._calls.received.take()) is not None:
                self._begin(entry)

    def _constructed(self) -> None:
        self.is_constructed = True
        self._node.post(ActorReady(self.order.actor))

    def abandon(self) -> None:
        """Record that the actor's process has ended."""
        for run in self._runs.values():
            run.abandon()

    # ---- HostedActor -------------------------------------------------------------------------

    def receive(self, connection: Connection, calls: Iterable[Call]) -> None:
        self._calls.received.extend((connection, call) for call in calls)

    def waiting(self) -> list[AssignedWork]:
        """Return the calls that have not started."""
        return self._calls.waiting()

    def drain(self) -> None:
        """Finish the running calls, and start no further calls."""
        self._is_draining = True

    def cancel(self, key: Key) -> None:
        """Cancel a call. A call whose code runs can be interrupted only on an event loop."""
        context = self._calls.cancel(key)
        if context is not None and self._is_concurrent:
            self._worker.later(0.0, partial(self._interrupt, key, context))

    def _interrupt(self, key: Key, context: TaskContext) -> None:
        if context in self._interruptible:
            self._runs[key].interrupt()

    # ---- calls -------------------------------------------------------------------------------

    def _begin(self, entry: Entry) -> None:
        worker = self._worker
        connection, call = entry
        assert isinstance(call, Call)
        key = (connection.peer, call.number)
        context = TaskContext(*key, call.method, call.attempt, self._lease, True)
        self._calls.contexts[key] = context
        started = partial(self._promises.call_started, worker, self.order, connection.peer, call)
        body = worker.code(connection, call, context, started, self._kept)
        run = Running(body, lambda message: self._ended(entry, context, message))
        if self._calls.contexts.get(key) is context:
            self._runs[key] = run

    def _ended(self, entry: Entry, context: TaskContext, message: Any) -> None:
        connection, call = entry
        key = (connection.peer, call.number)
        self._calls.contexts.pop(key, None)
        self._runs.pop(key, None)
        if self._worker.finish(connection, context, message) and self._is_concurrent:
            following = self._calls.finished(entry)
            if following is not None:
                self._begin(following)
