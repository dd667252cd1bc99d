"""Work that waits in this process until one of a fixed number of slots is free."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar

S = TypeVar("S")
Start = Callable[[S], Any]
"""A function that starts the work on a slot, and returns the work's reference."""


class Slots(Generic[S]):
    """A fixed number of slots for waiting work. A free slot gets the work that has waited longest;
    each slot does one piece of work at a time.

    Work is in flight until its reference is ready. Then its future gets the result, and the slot
    gets the next piece. Work whose future is cancelled while it waits never starts.
    """

    def __init__(
        self, slots: Sequence[S], ended: Callable[[S, Future[Any]], object] | None = None
    ) -> None:
        """Set up the slots. `ended` is called with a slot and the outcome of its work, before the
        slot gets its next work.
        """
        self._ended = ended
        self._free: deque[S] = deque(slots)
        self._waiting: deque[tuple[Start[S], Future[Any]]] = deque()
        self._in_flight = 0
        self._idle = threading.Condition()

    def submit(self, start: Start[S], future: Future[Any]) -> None:
        """Start the work when a slot is free, which may be now; `future` then gets the value of the
        work's reference.
        """
        with self._idle:
            self._waiting.append((start, future))
        self._start_waiting()

    def fail_waiting(self, error: BaseException) -> None:
        """Drop the waiting work; its futures fail with `error`."""
        with self._idle:
            dropped = [future for _, future in self._waiting]
            self._waiting.clear()
            self._idle.notify_all()
        for future in dropped:
            fail(future, error)

    def wait_until_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until no work waits or is in flight. Returns False after `timeout_s` seconds."""
        with self._idle:
            return self._idle.wait_for(lambda: not self._waiting and not self._in_flight, timeout_s)

    def _start_waiting(self) -> None:
        while True:
            with self._idle:
                if not (self._free and self._waiting):
                    return
                start, future = self._waiting.popleft()
                slot = self._free.popleft()
                self._in_flight += 1
            if not self._start(start, slot, future):
                self._give_back(slot)

    def _start(self, start: Start[S], slot: S, future: Future[Any]) -> bool:
        if future.cancelled():
            return False
        try:
            done = start(slot).future()
        except Exception as error:
            fail(future, error)
            return False
        done.add_done_callback(lambda done: self._finish(slot, done, future))
        return True

    def _finish(self, slot: S, done: Future[Any], future: Future[Any]) -> None:
        if self._ended is not None:
            self._ended(slot, done)
        self._give_back(slot)
        self._start_waiting()
        settle(future, done)

    def _give_back(self, slot: S) -> None:
        with self._idle:
            self._in_flight -= 1
            self._free.append(slot)
            if not self._waiting and not self._in_flight:
                self._idle.notify_all()


def settle(future: Future[Any], done: Future[Any]) -> None:
    """Copy the result or the error of `done` to `future`, unless `future` was cancelled."""
    error = done.exception()
    if error is not None:
        fail(future, error)
        return
    try:
        future.set_result(done.result())
    except InvalidStateError:
        assert future.cancelled()


def fail(future: Future[Any], error: BaseException) -> None:
    """Give `future` an error, unless it was cancelled."""
    try:
        future.set_exception(error)
    except InvalidStateError:
        assert future.cancelled()
