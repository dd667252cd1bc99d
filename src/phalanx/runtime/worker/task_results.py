"""Puts the outcomes of tasks into messages: several values, a stream of values, or a failure."""

from __future__ import annotations

import inspect
import itertools
import pickle
import sys
import time
from typing import Any

from phalanx.errors import PhalanxError, TaskError
from phalanx.model.system_settings import STREAM_ITEMS
from phalanx.objects import failures
from phalanx.objects.serialization import NONE_PICKLE
from phalanx.protocol.messages import Done, Failed, Item, Payload
from phalanx.runtime.driver.interrupts import interruptible
from phalanx.runtime.driver.reactor import Reactor, Waiter
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.own_pid import own_pid
from phalanx.runtime.worker.result_outbox import ResultOutbox
from phalanx.runtime.worker.run_times import Began
from phalanx.runtime.worker.task_values import InputsLost, TaskValues
from phalanx.worker.context import TaskContext
from phalanx.worker.generators import StreamingGeneratorStats, next_item
from phalanx.worker.open_streams import OpenStreams

_CONSUMER_S = 0.001
"""Seconds between two checks whether the reader of an async generator has taken more items."""


class TaskResults:
    """Makes messages from the values that user code returned or yielded, and from its errors."""

    def __init__(
        self,
        values: TaskValues,
        outbox: ResultOutbox,
        streams: OpenStreams,
        reactor: Reactor,
    ) -> None:
        self._values = values
        self._outbox = outbox
        self.streams = streams
        self._reactor = reactor
        self.stream_items = STREAM_ITEMS
        """The largest number of items in one stream."""

    @interruptible
    def pack_many(
        self, connection: Connection, task: Any, result: Any, context: TaskContext, started: Began
    ) -> Done | Failed:
        """Return the message for several results, for none, or for a stream of results. Raises
        ValueError if the number of values differs from the number of results.
        """
        number, returns = task.number, task.returns
        name = context.name
        if returns < 0:
            count = self._stream(connection, task, result, context)
            return Done(number, pickle.dumps(count), started.wall, started.ended())
        if returns == 0:
            return Done(number, NONE_PICKLE, started.wall, started.ended())
        if inspect.isgenerator(result):
            return self._counted(connection, task, result, context, started)
        try:
            results = list(result)
        except TypeError:
            results = [result]
            if returns != 1:
                raise ValueError(
                    f"{name} returned a {type(result).__name__}, but num_returns={returns} "
                    f"asks for {returns} values: return a tuple or list of that length."
                ) from None
        if len(results) != returns:
            raise ValueError(
                f"{name} returned {len(results)} values, but num_returns={returns} asks for "
                f"{returns}."
            )
        packed = [self._values.pack(r, connection, number, name) for r in results]
        return Done(number, packed[0], started.wall, started.ended(), packed[1:])

    @interruptible
    def _counted(
        self, connection: Connection, task: Any, items: Any, context: TaskContext, started: Began
    ) -> Done | Failed:
        """Return the message with the values of a task's generator. The task has a fixed number of
        results, `num_returns`: the generator must yield as many values, and further values are
        dropped.

        As in Ray, the values that came before an error are results all the same.
        """
        number, returns, name = task.number, task.returns, context.name
        packed: list[Payload] = []
        try:
            for item in itertools.islice(items, returns):
                packed.append(self._values.pack(item, connection, number, name))
            if len(packed) < returns:
                raise ValueError(
                    f"{name} yielded {len(packed)} values, but num_returns={returns} asks for "
                    f"{returns}."
                )
            if any(True for _ in items):
                print(
                    f"{name} yielded more than the {returns} values of num_returns: the rest were "
                    "dropped.",
                    file=sys.stderr,
                )
        except Exception as error:
            failed = self.failure(number, error, name, started)
            failed.values = packed
            return failed
        return Done(number, packed[0], started.wall, started.ended(), packed[1:])

    @interruptible
    def _stream(self, connection: Connection, task: Any, result: Any, context: TaskContext) -> int:
        if not hasattr(result, "__iter__"):
            raise TypeError(
                f"{context.name} must be a generator function (or return an iterable) for "
                f"num_returns='streaming', but it returned a {type(result).__name__}."
            )
        self.streams.begin(connection, task.number, context)
        index = 0
        try:
            items, stats = iter(result), None
            while True:
                try:
                    value = next_item(items, stats)
                except StopIteration:
                    break
                index += 1
                began = time.perf_counter()
                self.send_item(connection, task, index, value, context)
                stats = StreamingGeneratorStats(time.perf_counter() - began)
                self._await_consumer(task, index, context)
        finally:
            self.streams.end(connection, task.number)
        return index

    async def stream_async(
        self, connection: Connection, task: Any, items: Any, context: TaskContext, started: Began
    ) -> Done:
        """Send the values of an async generator as they come. Returns the message for the end of
        the stream. Raises TypeError if the task has a fixed number of results.
        """
        if task.returns >= 0:
            raise TypeError(
                f"{context.name} is an async generator: use num_returns='streaming' to read it."
            )
        import asyncio  # slow to import, and most programs have no event loop

        self.streams.begin(connection, task.number, context)
        index = 0
        try:
            async for value in items:
                index += 1
                self.send_item(connection, task, index, value, context)
                while context.is_ahead(index, task.backpressure):
                    if context.is_cancelled:
                        raise asyncio.CancelledError
                    self._outbox.flush()
                    await asyncio.sleep(_CONSUMER_S)
        finally:
            self.streams.end(connection, task.number)
        return Done(task.number, pickle.dumps(index), started.wall, started.ended())

    def send_item(
        self, connection: Connection, task: Any, index: int, value: Any, context: TaskContext
    ) -> None:
        """Send one value of a stream. Raises ValueError if the stream has too many items."""
        if index > self.stream_items:
            raise ValueError(
                f"{context.name} yielded more than {self.stream_items:,} items, but the cluster's "
                "setting max_num_generator_returns allows no more from one generator."
            )
        payload = self._values.pack(value, connection, task.number, context.name)
        self._outbox.post(connection, Item(task.number, index, payload))
        if index <= 2:  # the first items are sent at once, because the reader waits for them
            self._outbox.flush()
        else:
            self._outbox.flush_if_late()

    def _await_consumer(self, task: Any, index: int, context: TaskContext) -> None:
        while context.is_ahead(index, task.backpressure):
            self._outbox.flush()
            waiter = Waiter()
            context.progress = waiter
            if context.is_ahead(index, task.backpressure) and not context.is_cancelled:
                self._reactor.wait(waiter)
            context.progress = None
            if context.is_cancelled:
                raise KeyboardInterrupt

    def failure(
        self, number: int, error: BaseException, name: str, started: Began, actor: str | None = None
    ) -> Failed:
        """Return the message for an exception."""
        if type(error) is InputsLost:  # this is no fault of the program, so the owner tries again
            return Failed(
                number, " ".join(error.names).encode(), started.wall, started.ended(), "lost"
            )
        if isinstance(error, PhalanxError) and not isinstance(error, TaskError):
            data = failures.describe(error, name, own_pid(), actor, skip_frames=0)
        else:
            data = failures.describe(error, name, own_pid(), actor)
        said = failures.summary(error)
        return Failed(number, data, started.wall, started.ended(), summary=said)
