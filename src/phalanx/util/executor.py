"""A `concurrent.futures` executor whose calls are tasks."""

from __future__ import annotations

import concurrent.futures
import functools
import inspect
import itertools
import os
import threading
import time
import types
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from phalanx.api.cluster import cluster_resources
from phalanx.api.decorator import remote
from phalanx.util.executor_calls import (
    InitializerFailedError,
    call,
    call_each,
    call_in_ready_process,
)
from phalanx.util.slots import Slots, fail, settle
from phalanx.util.task_future import TaskFuture

T = TypeVar("T")
FUNCTIONS_KEPT = 128
OWN_PROCESSES = "PHALANX_EXECUTOR"
"""The environment variable with the executor's key, in processes that only one executor uses."""


class Executor(concurrent.futures.Executor):
    """An executor that runs its calls as tasks of the cluster.

    `max_workers` is the largest number of tasks in the cluster at the same time. With None, only
    the tasks' requests for resources limit this number. `options` are options of the tasks, such as
    `num_cpus=2` or `max_retries=0`. References among the arguments arrive as their values.

    With an `initializer` or `max_tasks_per_child`, calls run in processes that only this executor
    uses: each process runs `initializer(*initargs)` once before its first call, and ends after
    `max_tasks_per_child` calls. When an initializer raises, all calls fail with BrokenProcessPool.
    When a process is lost, only its call fails, with an error that is a BrokenProcessPool and a
    WorkerCrashedError. `mp_context` is accepted and ignored: the cluster starts processes in its
    own way.

    When the program ends, it waits for unfinished calls, as with the standard library's executors.
    Raises ValueError for `max_workers` or `max_tasks_per_child` below 1, and TypeError for an
    initializer that is not callable or a limit that is not a whole number.

    Example:
        with Executor(max_workers=8, num_cpus=1) as executor:
            assert list(executor.map(abs, [-1, 2, -3])) == [1, 2, 3]
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: object = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        **options: Any,
    ) -> None:
        _check(max_workers, initializer, max_tasks_per_child)
        self._call: Any = None
        if initializer is not None or max_tasks_per_child is not None:
            key = uuid.uuid4().hex
            options = _in_own_processes(options, key)
            ready = call_in_ready_process(key, initializer, tuple(initargs))
            self._call = _as_remote(ready, {"max_calls": max_tasks_per_child or 0}, options)
        self._given_max_workers = max_workers
        self._slots = Slots(range(max_workers)) if max_workers is not None else None
        self._pending: set[TaskFuture] = set()
        self._lock = threading.Lock()
        self._is_shut_down = False
        self._broken = ""
        # A function is pickled once, as a remote function, instead of with each of its calls.
        self._remote_of = functools.lru_cache(maxsize=FUNCTIONS_KEPT)(
            functools.partial(_as_remote, fixed={}, options=options)
        )
        _executors.add(self)

    @property
    def _max_workers(self) -> int:
        """The number of calls that run at the same time, for Dask and other libraries that read
        this attribute.
        """
        return self._given_max_workers or max(1, int(cluster_resources().get("CPU", 1)))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn(*args, **kwargs)` as a task. Returns its future.

        An error that prevents the start, such as an argument that cannot be pickled, becomes the
        future's error. Raises RuntimeError after shutdown, and BrokenProcessPool when the
        initializer has failed.

        Example:
            assert executor.submit(pow, 2, 10).result() == 1024
        """
        if self._call is not None:
            task = functools.partial(self._call.remote, fn)
        elif _is_plain_function(fn):
            task = self._remote_of(fn).remote
        else:
            task = functools.partial(self._remote_of(call).remote, fn)
        future = TaskFuture()
        with self._lock:
            if self._broken:
                raise BrokenProcessPool(self._broken)
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._pending.add(future)
        future.add_done_callback(self._done)

        def start(_: object = None) -> Any:
            future.ref = ref = task(*args, **kwargs)
            return ref

        if self._slots is not None:
            self._slots.submit(start, future)
            return future
        try:
            started = start().future()
        except Exception as error:
            fail(future, error)
        else:
            started.add_done_callback(lambda done: settle(future, done))
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Return the results of `fn` over the iterables, in their order. Each task makes
        `chunksize` calls.

        The tasks start immediately. With a `buffersize`, at most that many results are computed
        before they are read, so the iterables may be endless. Reading raises TimeoutError when a
        result is not ready `timeout` seconds after this call; the tasks that still run are then
        cancelled. Raises ValueError for sizes below 1, and TypeError for a buffersize that is no
        integer.

        Example:
            powers = list(executor.map(pow, range(100), range(100), chunksize=10))
        """
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1, got {chunksize}")
        if buffersize is not None:
            if not isinstance(buffersize, int):
                raise TypeError(f"buffersize must be an integer or None, got {buffersize!r}")
            if buffersize < 1:
                raise ValueError(f"buffersize must be None or greater than 0, got {buffersize}")
        end = None if timeout is None else time.monotonic() + timeout
        rows = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(rows, chunksize)), [])
        futures = (self.submit(call_each, fn, chunk) for chunk in chunks)
        return _results(futures, deque(itertools.islice(futures, buffersize)), end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With `cancel_futures`, cancel the calls that no worker has; with
        `wait`, wait for the others.
        """
        with self._lock:
            self._is_shut_down = True
            pending = list(self._pending)
        if cancel_futures:
            for future in reversed(pending):
                future.withdraw()
        if wait:
            concurrent.futures.wait(pending)

    def _done(self, future: Any) -> None:
        # The reference would keep the result in memory, although the result now belongs to its
        # reader.
        future.ref = None
        with self._lock:
            self._pending.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, InitializerFailedError):
            with self._lock:
                self._broken = str(error)
                pending = list(self._pending)
            for other in pending:
                fail(other, BrokenProcessPool(self._broken))


def _check(
    max_workers: int | None,
    initializer: Callable[..., object] | None,
    max_tasks_per_child: int | None,
) -> None:
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"max_workers must be greater than 0 or None, got {max_workers}")
    if initializer is not None and not callable(initializer):
        raise TypeError(f"initializer must be a callable, got {initializer!r}")
    if max_tasks_per_child is None:
        return
    if not isinstance(max_tasks_per_child, int):
        raise TypeError(f"max_tasks_per_child must be an integer, got {max_tasks_per_child!r}")
    if max_tasks_per_child < 1:
        raise ValueError(f"max_tasks_per_child must be >= 1, got {max_tasks_per_child}")


def _in_own_processes(options: dict[str, Any], key: str) -> dict[str, Any]:
    """Return options with a runtime environment that only this executor uses.

    A process serves one runtime environment, so no other work gets the executor's processes.
    """
    environment = dict(options.get("runtime_env") or {})
    environment["env_vars"] = {**environment.get("env_vars", {}), OWN_PROCESSES: key}
    return {**options, "runtime_env": environment}


def _as_remote(fn: Callable[..., Any], fixed: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return `fn` as a remote function with `options`. `fixed`: the options that can be given only
    when a function is made remote.
    """
    function = remote(**fixed)(fn) if fixed else remote(fn)
    return function.options(**options) if options else function


def _is_plain_function(fn: Callable[..., Any]) -> bool:
    """Whether a function can be made remote directly.

    Generators and coroutines are wrapped instead, because a remote function treats them in another
    way.
    """
    return isinstance(fn, types.FunctionType) and not (
        inspect.isgeneratorfunction(fn)
        or inspect.iscoroutinefunction(fn)
        or inspect.isasyncgenfunction(fn)
    )


def _results(
    futures: Iterator[Future[list[T]]], ahead: deque[Future[list[T]]], end: float | None
) -> Iterator[T]:
    """Yield the results, keeping no reference to those that were read."""
    try:
        while ahead:
            rows = _taken(ahead, end)
            ahead.extend(itertools.islice(futures, 1))
            rows.reverse()
            while rows:
                yield rows.pop()
    finally:
        for future in ahead:
            future.cancel()


def _taken(ahead: deque[Future[list[T]]], end: float | None) -> list[T]:
    left = None if end is None else max(0.0, end - time.monotonic())
    rows = ahead[0].result(left)
    ahead.popleft()
    return rows


_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


def _finish_all() -> None:
    for executor in list(_executors):
        executor.shutdown()


# Register the end of all executors before the session ends, when the standard library's executors
# wait, too.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=_executors.clear)
