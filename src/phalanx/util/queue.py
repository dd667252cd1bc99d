"""A first-in, first-out queue that all tasks and actors can share: an async actor has the items."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

from phalanx.api.decorator import remote
from phalanx.api.objects import get, kill, wait


class Empty(queue.Empty):
    """Raised when there is no item, now or within the given time."""


class Full(queue.Full):
    """Raised when there is no room for the item, now or within the given time."""


class Queue:
    """A queue that can be passed to tasks and actors, which then share it.

    `maxsize` is the largest number of items; 0 for no limit. `actor_options` are options of the
    actor that holds the items, such as `{"name": "work", "num_cpus": 0}`.

    Example:
        queue = Queue(maxsize=100)
        queue.put("first")
        assert queue.get(timeout=10) == "first"
        queue.shutdown()
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        self.actor: Any = remote(_QueueActor).options(**(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Return the number of items in the queue."""
        return int(get(self.actor.qsize.remote()))

    def qsize(self) -> int:
        """Return the number of items in the queue, as `size` does."""
        return self.size()

    def empty(self) -> bool:
        """Whether the queue has no items."""
        return bool(get(self.actor.empty.remote()))

    def full(self) -> bool:
        """Whether the queue holds `maxsize` items."""
        return bool(get(self.actor.full.remote()))

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, after waiting for room at most `timeout` seconds (None for no limit).

        Raises Full when there is no room, and ValueError for a negative timeout.
        """
        try:
            get(self._put(item, block, timeout))
        except queue.Full as full:
            raise Full(*full.args) from None

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item as `put` does, without blocking the event loop."""
        try:
            await self._put(item, block, timeout)
        except queue.Full as full:
            raise Full(*full.args) from None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return the oldest item, after waiting for one at most `timeout` seconds (None
        for no limit).

        Raises Empty when no item came, and ValueError for a negative timeout.
        """
        try:
            return get(self._get(block, timeout))
        except queue.Empty as empty:
            raise Empty(*empty.args) from None

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest item as `get` does, without blocking the event loop."""
        try:
            return await self._get(block, timeout)
        except queue.Empty as empty:
            raise Empty(*empty.args) from None

    def put_nowait(self, item: Any) -> None:
        """Add an item without waiting. Raises Full when there is no room."""
        self.put(item, block=False)

    def get_nowait(self) -> Any:
        """Remove and return the oldest item without waiting. Raises Empty when there is none."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items in their order, or none of them. Raises Full when not all fit."""
        if not isinstance(items, Iterable):
            raise TypeError(f"put_nowait_batch takes an iterable of items, got {items!r}")
        try:
            get(self.actor.put_nowait_batch.remote(list(items)))
        except queue.Full as full:
            raise Full(*full.args) from None

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Remove and return exactly `num_items` items, oldest first. Raises Empty when there are
        fewer.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"num_items must be an int, got {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items must not be negative, got {num_items}")
        try:
            return list(get(self.actor.get_nowait_batch.remote(num_items)))
        except queue.Empty as empty:
            raise Empty(*empty.args) from None

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor after its pending calls, but at the latest after `grace_period_s` seconds;
        with `force`, end it immediately.
        """
        if self.actor is None:
            return
        if not force:
            _, still_running = wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)
            force = bool(still_running)
        if force:
            kill(self.actor, no_restart=True)
        self.actor = None

    def _put(self, item: Any, block: bool, timeout_s: float | None) -> Any:
        if not block:
            return self.actor.put_nowait.remote(item)
        return self.actor.put.remote(item, _not_negative(timeout_s))

    def _get(self, block: bool, timeout_s: float | None) -> Any:
        if not block:
            return self.actor.get_nowait.remote()
        return self.actor.get.remote(_not_negative(timeout_s))


def _not_negative(timeout_s: float | None) -> float | None:
    if timeout_s is not None and timeout_s < 0:
        raise ValueError(f"timeout must be None or at least 0 seconds, got {timeout_s}")
    return timeout_s


class _QueueActor:
    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    def qsize(self) -> int:
        return self.queue.qsize()

    def empty(self) -> bool:
        return self.queue.empty()

    def full(self) -> bool:
        return self.queue.full()

    async def put(self, item: Any, timeout_s: float | None) -> None:
        try:
            await asyncio.wait_for(self.queue.put(item), timeout_s)
        except TimeoutError:
            raise Full(f"still {self.maxsize} items after {timeout_s} s") from None

    async def get(self, timeout_s: float | None) -> Any:
        try:
            return await asyncio.wait_for(self.queue.get(), timeout_s)
        except TimeoutError:
            raise Empty(f"no item within {timeout_s} s") from None

    def put_nowait(self, item: Any) -> None:
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            raise Full(f"the queue holds its {self.maxsize} items") from None

    def get_nowait(self) -> Any:
        try:
            return self.queue.get_nowait()
        except asyncio.QueueEmpty:
            raise Empty("the queue is empty") from None

    def put_nowait_batch(self, items: list[Any]) -> None:
        room = self.maxsize - self.qsize()
        if self.maxsize > 0 and len(items) > room:
            raise Full(f"{len(items)} items do not fit: room for {room} of {self.maxsize}")
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        if num_items > self.qsize():
            raise Empty(f"{num_items} items requested, but the queue has {self.qsize()}")
        return [self.queue.get_nowait() for _ in range(num_items)]
