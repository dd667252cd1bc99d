"""The results of a generator task as a stream. The references come one after another."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from phalanx.objects.reference import ObjectRef, make_ref

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class StreamHooks(Protocol):
    """The methods that a generator of references needs from its process."""

    abandoned: deque[Stream]
    """The streams whose generators are gone. Finalizers only append to this queue."""

    def wait_stream(self, stream: Stream, index: int, timeout_s: float | None) -> bool:
        """Wait until item `index` has arrived or the stream has ended. Returns False after
        `timeout_s` seconds.
        """
        ...


class Stream:
    """The items of a stream so far. A caller of a method that changes them must hold the lock of
    the process.
    """

    def __init__(self, owner: bytes) -> None:
        self.owner = owner
        self.items: dict[int, ObjectRef[Any]] = {}
        """The items that have arrived or are expected, and that the reader has not taken, by index
        from 1.
        """
        self.arrived_to = 0
        """The index up to which all items have arrived."""
        self.taken_to = 0
        """The index up to which the reader has taken all items."""
        self.is_ended = False
        self.number = 0
        """The number of the task that produces the items."""
        self.first = 0
        """The number of the first item's object, minus one."""
        self.waiters: list[Callable[[], None]] = []
        self.completion: ObjectRef[Any] | None = None
        """The reference that is completed once the task has ended."""
        self.on_taken: Callable[[], None] | None = None
        """If the producer is held back: a function that is called when `taken_to` has grown."""

    def slot(self, index: int) -> ObjectRef[Any]:
        """Return the reference of item `index`."""
        ref = self.items.get(index)
        if ref is None:
            ref = make_ref(self.owner, self.first + index)
            self.items[index] = ref
        return ref

    def arrived(self, index: int) -> None:
        """Note that item `index` has its value."""
        if index == self.arrived_to + 1:
            self.arrived_to = index
        if self.arrived_to < self.taken_to:  # the stream was abandoned
            self.abandon()
        self._wake()

    def take(self, index: int) -> ObjectRef[Any]:
        """Take item `index`, which must have arrived, for the reader. The producer may then
        continue.
        """
        self.taken_to = index
        ref = self.items.pop(index)
        if self.on_taken is not None:
            self.on_taken()
        return ref

    def abandon(self) -> None:
        """Drop the items that have arrived. The task continues without back-pressure, because
        nobody reads its items.
        """
        for index in [i for i in self.items if i <= self.arrived_to]:
            del self.items[index]
        self.taken_to = sys.maxsize
        if self.on_taken is not None:
            self.on_taken()

    def next_free(self) -> int:
        """Return the index after the last item."""
        return self.arrived_to + 1

    def end(self) -> list[ObjectRef[Any]]:
        """Note that no more items will come. Returns the references to items that were expected but
        did not come.
        """
        self.is_ended = True
        self._wake()
        return [ref for index, ref in list(self.items.items()) if index > self.arrived_to]

    def _wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()

    def as_dynamic(self) -> DynamicObjectRefGenerator[Any]:
        """Return all items, for num_returns="dynamic"."""
        return DynamicObjectRefGenerator([self.items[i] for i in sorted(self.items)])


class ObjectRefGenerator(Generic[T], metaclass=ABCMeta):
    """References to a generator task's items: iterate, or use `async for`.

    The class is abstract for the same reason as ObjectRef.
    """

    def __init__(self, stream: Stream, hooks: StreamHooks) -> None:
        self._stream = stream
        self._hooks = hooks
        self._next_index = 1

    def __del__(self) -> None:
        self._hooks.abandoned.append(self._stream)

    def __iter__(self) -> Iterator[ObjectRef[T]]:
        return self

    def __next__(self) -> ObjectRef[T]:
        return self._next_sync()

    def _next_sync(self, timeout_s: float | None = None) -> ObjectRef[T]:
        """Return the next reference, or a nil reference after `timeout_s` seconds. Raises
        StopIteration at the end.
        """
        index = self._next_index
        if self._stream.arrived_to < index and not self._stream.is_ended:
            if timeout_s is not None and timeout_s <= 0:
                timeout_s = 0
            if not self._hooks.wait_stream(self._stream, index, timeout_s):
                return ObjectRef.nil()
        if self._stream.arrived_to < index:
            raise StopIteration
        return self._take(index)

    def _take(self, index: int) -> ObjectRef[T]:
        self._next_index = index + 1
        return self._stream.take(index)

    def __aiter__(self) -> AsyncIterator[ObjectRef[T]]:
        return self

    async def __anext__(self) -> ObjectRef[T]:
        import asyncio  # slow to import, and most programs have no event loop

        index = self._next_index
        stream = self._stream
        loop = asyncio.get_running_loop()
        while stream.arrived_to < index and not stream.is_ended:
            future: asyncio.Future[None] = loop.create_future()

            def wake(waiting: asyncio.Future[None] = future) -> None:
                loop.call_soon_threadsafe(_finish, waiting)

            stream.waiters.append(wake)
            if stream.arrived_to >= index or stream.is_ended:
                break
            self._hooks.wait_stream(stream, 0, 0)  # this sends the messages that wait to be sent
            await future
        if stream.arrived_to < index:
            raise StopAsyncIteration
        return self._take(index)

    def peek(self) -> ObjectRef[Any]:
        """Return the next item's reference, which may be pending, without taking it.

        After the last item, return a reference that is complete.
        """
        # this comes first, since the end completes awaited slots
        ref = self._stream.slot(self._next_index)
        return self.completed() if self.is_finished() else ref

    def next_ready(self) -> bool:
        """Whether the next item has arrived."""
        return self._stream.arrived_to >= self._next_index

    def is_finished(self) -> bool:
        """Whether the last item has been taken."""
        return self._stream.is_ended and self._stream.arrived_to < self._next_index

    _stream_exhausted = is_finished  # Ray Data uses this name

    def completed(self) -> ObjectRef[Any]:
        """Return a reference that completes when the task ends, and fails if the task fails."""
        assert self._stream.completion is not None
        return self._stream.completion

    @property
    def _generator_ref(self) -> ObjectRef[Any]:
        return self.completed()

    def task_id(self) -> Any:
        """Return the id of the generator task."""
        return self.completed().task_id()

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self.completed().hex()})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "An ObjectRefGenerator cannot leave the process that made it: pass the references "
            "it gives instead."
        )


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class DynamicObjectRefGenerator(Generic[T], metaclass=ABCMeta):
    """The references of a finished generator task (num_returns="dynamic")."""

    def __init__(self, refs: list[ObjectRef[T]]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef[T]]:
        return iter(self._refs)

    def __len__(self) -> int:
        return len(self._refs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamicObjectRefGenerator) and self._refs == other._refs

    __hash__ = None  # type: ignore[assignment]
