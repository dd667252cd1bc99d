"""A `concurrent.futures` executor whose calls are tasks."""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import itertools
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from phalanx.api.decorator import remote
from phalanx.api.objects import cancel
from phalanx.util.slots import Slots, settle

T = TypeVar("T")
FUNCTIONS_KEPT = 128


class TaskFuture(Future[Any]):
    """The future of a task. Unlike a thread's, it can be cancelled while the task runs."""

    ref: Any = None

    def cancel(self) -> bool:
        """Drop the task if it has not begun, interrupt it if it runs; False when it is done."""
        if self.cancelled():
            return True
        if not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        if self.ref is not None:
            cancel(self.ref)
        return True


class Executor(concurrent.futures.Executor):
    """Runs calls as tasks on the cluster's resources.

    `max_workers` is the greatest number of tasks handed to the cluster at once; None hands all of
    them over, and the resources that they ask for are the limit. `options` are those of the
    tasks, such as `num_cpus=2` or `max_retries=0`. References among the arguments arrive as their
    values. Raises ValueError for `max_workers` below 1.
    """

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers must be None or at least 1, got {max_workers}")
        self._options = options
        self._slots = Slots(range(max_workers)) if max_workers is not None else None
        self._pending: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self._is_shut_down = False
        # A function is pickled once as a remote function, not with each of its calls.
        self._remote_of = functools.lru_cache(maxsize=FUNCTIONS_KEPT)(self._as_remote)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn(*args, **kwargs)` as a task. Raises RuntimeError after shutdown."""
        if not _is_plain_function(fn):
            return self.submit(_call, fn, *args, **kwargs)
        remote = self._remote_of(fn)
        future = TaskFuture()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("this executor is shut down and takes no more calls")
            self._pending.add(future)
        future.add_done_callback(self._forget)

        def start(_: object = None) -> Any:
            future.ref = remote.remote(*args, **kwargs)
            return future.ref

        if self._slots is not None:
            self._slots.submit(start, future)
            return future
        try:
            started = start().future()
        except BaseException:
            future.cancel()
            raise
        started.add_done_callback(lambda done: settle(future, done))
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **_: Any,
    ) -> Iterator[T]:
        """The results of `fn` over the iterables, in their order, `chunksize` calls to a task.

        The tasks start at once. Reading on raises TimeoutError when a result is not there
        `timeout` seconds after this call; what is still running is then cancelled.
        """
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1, got {chunksize}")
        end = None if timeout is None else time.monotonic() + timeout
        rows = zip(*iterables, strict=False)
        futures = [
            self.submit(_call_each, fn, chunk)
            for chunk in iter(lambda: list(itertools.islice(rows, chunksize)), [])
        ]
        return _results(futures, end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `cancel_futures` cancel those not done, with `wait` wait."""
        with self._lock:
            self._is_shut_down = True
            pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            concurrent.futures.wait(pending)

    def _as_remote(self, fn: Callable[..., Any]) -> Any:
        function = remote(fn)
        return function.options(**self._options) if self._options else function

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._pending.discard(future)


def _is_plain_function(fn: Callable[..., Any]) -> bool:
    """Generators and coroutines mean something else to a remote function, so they are wrapped."""
    return isinstance(fn, types.FunctionType) and not (
        inspect.isgeneratorfunction(fn)
        or inspect.iscoroutinefunction(fn)
        or inspect.isasyncgenfunction(fn)
    )


def _call(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return fn(*args, **kwargs)


def _call_each(fn: Callable[..., T], rows: list[tuple[Any, ...]]) -> list[T]:
    return [fn(*row) for row in rows]


def _results(futures: list[Future[list[T]]], end: float | None) -> Iterator[T]:
    try:
        for future in futures:
            left = None if end is None else max(0.0, end - time.monotonic())
            yield from future.result(left)
    finally:
        for future in futures:
            future.cancel()
