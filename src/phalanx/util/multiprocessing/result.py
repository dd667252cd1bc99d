"""The results of a pool's calls: one result that is waited for, or an iterator over results."""

from __future__ import annotations

import concurrent.futures
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from multiprocessing import TimeoutError
from typing import Any

from phalanx.errors import NotPicklableError, TaskError
from phalanx.util.multiprocessing.batch import Answers, UnsentResultError

Batch = Future[Answers]


class AsyncResult:
    """The outcome of apply_async, map_async or starmap_async, as in multiprocessing.

    Example:
        result = pool.map_async(abs, [-1, 2, -3])
        result.wait(timeout=60)
        assert result.successful()
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        *,
        single: bool,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> None:
        self._batches = list(batches)
        self._single = single
        self._callback = callback
        self._error_callback = error_callback
        self._called_back: threading.Event | None = None
        if callback is not None or error_callback is not None:
            self._called_back = threading.Event()
            self._count_down()

    def ready(self) -> bool:
        """Whether all calls have ended, and the callback, too, if there is one."""
        if self._called_back is not None:
            return self._called_back.is_set()
        return all(batch.done() for batch in self._batches)

    def successful(self) -> bool:
        """Whether no call failed. Raises ValueError while calls are running."""
        if not self.ready():
            raise ValueError("the result is not ready yet: call wait() or get() first")
        return self._outcome()[1] is None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until `ready()`, at most `timeout` seconds."""
        if self._called_back is not None:
            self._called_back.wait(timeout)
        else:
            concurrent.futures.wait(self._batches, timeout)

    def get(self, timeout: float | None = None) -> Any:
        """Return the result (a list for the map calls), or raise the error of the first failed
        call.

        Raises multiprocessing.TimeoutError when the result is not ready within `timeout` seconds.
        """
        self.wait(timeout)
        if not self.ready():
            raise TimeoutError(f"no result within {timeout} s")
        value, error = self._outcome()
        if error is not None:
            raise error
        return value

    def _outcome(self) -> tuple[Any, BaseException | None]:
        values: list[Any] = []
        for batch in self._batches:
            failed = _failure(batch)
            if failed is not None:
                return None, failed
            for value, error in batch.result().each():
                if error is not None:
                    return None, error
                values.append(value)
        return (values[0] if self._single else values), None

    def _count_down(self) -> None:
        left = itertools.count(len(self._batches) - 1, -1)

        def one_done(_: Batch) -> None:
            if next(left) == 0:  # next() on a count is atomic, so exactly one callback sees zero
                self._call_back()

        for batch in self._batches:
            batch.add_done_callback(one_done)
        if not self._batches:
            self._call_back()

    def _call_back(self) -> None:
        assert self._called_back is not None
        value, error = self._outcome()
        try:
            if error is None and self._callback is not None:
                self._callback(value)
            if error is not None and self._error_callback is not None:
                self._error_callback(error)
        finally:
            self._called_back.set()


class ResultIterator(Iterator[Any]):
    """The results of imap or imap_unordered; `next(timeout)` waits at most that many seconds.

    At the place of a failed call, its error is raised; the iterator then continues. Only a few
    batches are computed before they are read, so the input may be endless.
    """

    def __init__(self, batches: Iterator[Batch], *, ahead: int, ordered: bool) -> None:
        self._batches = batches
        self._in_order: deque[Batch] | None = deque() if ordered else None
        self._done: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self._in_flight = 0
        self._answers: deque[tuple[Any, BaseException | None]] = deque()
        for _ in range(ahead):
            self._start_next()

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """Return the next result.

        Raises StopIteration at the end, and multiprocessing.TimeoutError after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._answers:
            if not self._in_flight:
                raise StopIteration
            batch = self._wait(None if end is None else max(0.0, end - time.monotonic()))
            self._in_flight -= 1
            self._start_next()
            failed = _failure(batch)
            if failed is not None:
                raise failed
            self._answers.extend(batch.result().each())
        value, error = self._answers.popleft()
        return value if error is None else self._failed(error)

    def _failed(self, error: BaseException) -> Any:
        """Raise the error of a failed call. A subclass may return a value instead."""
        raise error

    def _wait(self, timeout_s: float | None) -> Batch:
        try:
            if self._in_order is None:
                return self._done.get(timeout=timeout_s)
            concurrent.futures.wait([self._in_order[0]], timeout_s)
            if not self._in_order[0].done():
                raise queue.Empty
            return self._in_order.popleft()
        except queue.Empty:
            raise TimeoutError("no result within the time given") from None

    def _start_next(self) -> None:
        try:
            batch = next(self._batches, None)
        except Exception as error:  # an error of the input appears at its place among the results
            batch = Future()
            batch.set_exception(error)
        if batch is None:
            return
        self._in_flight += 1
        if self._in_order is not None:
            self._in_order.append(batch)
        else:
            batch.add_done_callback(self._done.put)


def _failure(batch: Batch) -> BaseException | None:
    """Return the error of a batch that has no answers, because its process was lost or a result
    could not be sent. Return None for any other batch.
    """
    error = batch.exception()
    if isinstance(error, TaskError) and isinstance(error, NotPicklableError):
        return UnsentResultError(str(error.cause), "a result of the batch")
    return error
