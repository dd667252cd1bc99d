"""Heaps from which jobs, tasks and queues are taken in the session's orders."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Heap(Generic[T]):
    """A heap from which the item with the smallest `key` is taken first.

    The key is computed when an item is pushed. If an item's key changes, push the item again.
    """

    __slots__ = ("_entries", "_key", "_sequence")

    def __init__(self, key: Callable[[T], Any], items: Iterable[T] = ()) -> None:
        self._key = key
        self._entries: list[tuple[Any, int, T]] = [
            (key(item), i, item) for i, item in enumerate(items)
        ]
        heapq.heapify(self._entries)
        self._sequence = len(self._entries)

    def push(self, item: T) -> None:
        self._sequence += 1
        heapq.heappush(self._entries, (self._key(item), self._sequence, item))

    def pop(self) -> T:
        return heapq.heappop(self._entries)[2]

    def __len__(self) -> int:
        return len(self._entries)

    def copy(self) -> Heap[T]:
        twin: Heap[T] = Heap(self._key)
        twin._entries = list(self._entries)
        twin._sequence = self._sequence
        return twin


class QueueHeap:
    """A heap from which the queue that `compare` puts first is taken first.

    A queue's position is found when the queue is pushed. If a queue changes, push it again.
    """

    __slots__ = ("_compare", "_items")

    def __init__(self, compare: Callable[[int, int], int]) -> None:
        self._compare = compare
        self._items: list[int] = []

    def push(self, queue: int) -> None:
        low, high = 0, len(self._items)
        while low < high:
            middle = (low + high) // 2
            if self._compare(self._items[middle], queue) > 0:
                low = middle + 1
            else:
                high = middle
        self._items.insert(low, queue)

    def pop(self) -> int:
        return self._items.pop()

    def __len__(self) -> int:
        return len(self._items)
