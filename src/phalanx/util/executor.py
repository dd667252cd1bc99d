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
"""In the environment of an executor's own processes: which executor's they are."""


class Executor(concurrent.futures.Executor):
    """Runs calls as tasks on the cluster's resources.

    `max_workers` is the greatest number of tasks handed to the cluster at once; None hands all of
    them over, and the resources that they ask for are the limit. `options` are those of the
    tasks, such as `num_cpus=2` or `max_retries=0`. References among the arguments arrive as their
    values.

    With an `initializer` or `max_tasks_per_child`, calls run in processes of this executor's own:
    in each `initializer(*initargs)` runs once before its first call, and it ends after
    `max_tasks_per_child` of them. When an initializer raises, all calls fail with
    BrokenProcessPool. When a process is lost, only its call fails, with an error that is a
    BrokenProcessPool and a WorkerCrashedError. `mp_context` is taken and not used: the cluster
    starts its processes in its own way.

    Calls that are not done at the end of the program are waited for, as the standard library
    does. Raises ValueError for `max_workers` or `max_tasks_per_child` below 1, TypeError for what
    is no callable or no number.
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
        # A function is pickled once as a remote function, not with each of its calls.
        self._remote_of = functools.lru_cache(maxsize=FUNCTIONS_KEPT)(
            functools.partial(_as_remote, fixed={}, options=options)
        )
        _executors.add(self)

    @property
    def _max_workers(self) -> int:
        """What Dask and others take for the number of calls at once."""
        return self._given_max_workers or max(1, int(cluster_resources().get("CPU", 1)))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run `fn(*args, **kwargs)` as a task. What prevents its start, such as an argument that
        cannot be pickled, is the future's error. Raises RuntimeError after shutdown,
        BrokenProcessPool when the initializer has failed."""
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
        """The results of `fn` over the iterables, in their order, `chunksize` calls to a task.

        The tasks start at once; with a `buffersize` at most so many are ahead of the reader, and
        the iterables may be endless. Reading on raises TimeoutError when a result is not there
        `timeout` seconds after this call; what is still running is then cancelled. Raises
        ValueError for sizes below 1, TypeError for a buffersize that is no integer.
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
        """Take no more calls; with `cancel_futures` cancel those that no worker has, with `wait`
        wait for all others."""
        with self._lock:
            self._is_shut_down = True
            pending = list(self._pending)
        if cancel_futures:
            for future in reversed(pending):
                future.withdraw()
        if wait:
            concurrent.futures.wait(pending)

    def _done(self, future: Any) -> None:
        future.ref = None  # the reference keeps the result, which is its reader's now
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
    """Processes serve one environment: one of its own, and no other work finds them."""
    environment = dict(options.get("runtime_env") or {})
    environment["env_vars"] = {**environment.get("env_vars", {}), OWN_PROCESSES: key}
    return {**options, "runtime_env": environment}


def _as_remote(fn: Callable[..., Any], fixed: dict[str, Any], options: dict[str, Any]) -> Any:
    """`fixed`: options that only a definition takes."""
    function = remote(**fixed)(fn) if fixed else remote(fn)
    return function.options(**options) if options else function


def _is_plain_function(fn: Callable[..., Any]) -> bool:
    """Generators and coroutines mean something else to a remote function, so they are wrapped."""
    return isinstance(fn, types.FunctionType) and not (
        inspect.isgeneratorfunction(fn)
        or inspect.iscoroutinefunction(fn)
        or inspect.isasyncgenfunction(fn)
    )


def _results(
    futures: Iterator[Future[list[T]]], ahead: deque[Future[list[T]]], end: float | None
) -> Iterator[T]:
    """Results leave this generator as they are read: nothing here keeps them alive."""
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


# Before the session ends: where the standard library's executors wait at the program's end, too.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
os.register_at_fork(after_in_child=_executors.clear)
