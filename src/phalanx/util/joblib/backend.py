"""The joblib backend: batches run as tasks; large arguments are put in the object store once and
shared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from joblib._parallel_backends import AutoBatchingMixin, ParallelBackendBase
from joblib.parallel import BACKENDS

from phalanx.api.cluster import cluster_resources
from phalanx.api.objects import put
from phalanx.api.session import init, is_initialized
from phalanx.runtime.engine import dialect
from phalanx.util.executor import Executor

SHARED_FROM_BYTES = 100_000
"""The size in bytes from which an argument is put in the object store once, for all calls that use
it.
"""


class _Shared(NamedTuple):
    """Takes the place of a large argument in a batch. The argument itself is put in the object
    store. `number`: the index of the argument's reference among the references that the task gets.
    """

    number: int


class _Interrupted(NamedTuple):
    """The result of a batch that raised KeyboardInterrupt. The task returns this result instead of
    raising, because a task that raises KeyboardInterrupt counts as cancelled.
    """


class PhalanxBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # untyped
    """Runs joblib's batches as tasks.

    `remote_args` are options of the tasks, such as `{"num_cpus": 2}`; `parallel_config` and
    `Parallel` take them too. They also take `initializer` and `initargs`; with these, batches run
    in processes that only this backend uses. A joblib call inside a task uses threads of the task's
    process, as with Ray; a joblib call inside such a call runs sequentially.

    Example:
        register_phalanx()
        with joblib.parallel_config(backend="phalanx", remote_args={"num_cpus": 2}):
            squares = joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(10))
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        remote_args: Mapping[str, Any] | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
        **backend_kwargs: Any,
    ) -> None:
        super().__init__(
            nesting_level=nesting_level,
            inner_max_num_threads=inner_max_num_threads,
            **backend_kwargs,
        )
        self._options = {**(ray_remote_args or {}), **(remote_args or {})}
        self._callbacks: ThreadPoolExecutor | None = None
        self._start_workers: Callable[[], Executor] = Executor
        self._workers: Executor | None = None
        self._in_flight: set[Future[Any]] = set()
        # id of the argument -> (the argument, its reference)
        self._shared: dict[int, tuple[Any, Any]] = {}

    def __reduce__(self) -> Any:
        return (PhalanxBackend, (self.nesting_level, self.inner_max_num_threads, self._options))

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of calls that run at the same time: with -1, all CPUs of the cluster;
        with -2, all but one.
        """
        if n_jobs == 0:
            raise ValueError(
                "n_jobs == 0 in Parallel has no meaning: use -1 for all CPUs, or a count"
            )
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        if not is_initialized():
            init()
        cpus = int(cluster_resources().get("CPU", 1))
        return max(1, cpus + 1 + n_jobs)

    def configure(  # the signature is joblib's
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        remote_args: Mapping[str, Any] | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        **backend_kwargs: Any,
    ) -> int:
        """Prepare for a run, as joblib requires. Returns the number of calls that run at the same
        time.
        """
        self.parallel = parallel
        options = {**self._options, **(ray_remote_args or {}), **(remote_args or {})}
        initializer = initializer or self.backend_kwargs.get("initializer")
        initargs = initargs or self.backend_kwargs.get("initargs", ())
        options = self._with_thread_limits(options)
        self._start_workers = lambda: Executor(
            initializer=initializer, initargs=initargs, **options
        )
        self._workers = self._start_workers()
        if self._callbacks is None:
            # joblib's callbacks start more work, for which they read the caller's iterator. That
            # takes too long for the engine's thread, which reports results.
            self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="phalanx-joblib")
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Any, callback: Callable[[Any], object] | None = None) -> Future[Any]:
        """Start a batch; `callback` gets the batch's future when it is done."""
        batch, refs = self._with_shared_arguments(func)
        assert self._workers is not None
        future = self._workers.submit(_run_batch, batch, *refs)
        self._in_flight.add(future)
        future.add_done_callback(lambda done: self._done(done, callback))
        return future

    def apply_async(
        self, func: Any, callback: Callable[[Any], object] | None = None
    ) -> Future[Any]:
        """Start a batch. This is the name of `submit` in joblib before 1.4."""
        return self.submit(func, callback)

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the results of a batch, or raise its error."""
        result = out.result()
        if isinstance(result, _Interrupted):
            raise KeyboardInterrupt
        return result

    def stop_call(self) -> None:
        """Release the shared arguments."""
        self._shared.clear()

    def terminate(self) -> None:
        """Release everything. joblib calls this at the end."""
        self._shared.clear()
        self._workers = None
        if self._callbacks is not None:
            self._callbacks.shutdown(wait=False)
            self._callbacks = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel the batches that have started or wait."""
        for future in list(self._in_flight):
            future.cancel()
        if ensure_ready:
            self._workers = self._start_workers()
        else:
            self.terminate()

    def _done(self, future: Future[Any], callback: Callable[[Any], object] | None) -> None:
        self._in_flight.discard(future)
        callbacks = self._callbacks
        if callback is not None and callbacks is not None:
            callbacks.submit(callback, future)

    def _with_thread_limits(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return options with variables that limit the threads of numerical libraries.

        Without `inner_max_num_threads` the options do not change.
        """
        if self.inner_max_num_threads is None:
            return options
        limits = dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(self.inner_max_num_threads))
        environment = dict(options.get("runtime_env") or {})
        environment["env_vars"] = {**limits, **environment.get("env_vars", {})}
        return {**options, "runtime_env": environment}

    def _with_shared_arguments(self, func: Any) -> tuple[Any, list[Any]]:
        items = getattr(func, "items", None)
        if items is None:
            return func, []
        refs: list[Any] = []
        numbers: dict[int, _Shared] = {}

        def in_place(argument: Any) -> Any:
            if _size_bytes(argument) < SHARED_FROM_BYTES:
                return argument
            key = id(argument)
            if key not in self._shared:
                self._shared[key] = (argument, put(argument))
            if key not in numbers:
                numbers[key] = _Shared(len(refs))
                refs.append(self._shared[key][1])
            return numbers[key]

        batch = copy.copy(func)
        batch.items = _replaced(items, in_place)
        return batch, refs


def _run_batch(batch: Any, *shared: Any) -> Any:
    if shared:
        batch.items = _replaced(
            batch.items, lambda each: shared[each.number] if isinstance(each, _Shared) else each
        )
    try:
        return batch()
    except KeyboardInterrupt:
        return _Interrupted()


def _replaced(items: list[Any], replace: Callable[[Any], Any]) -> list[Any]:
    return [
        (
            function,
            tuple(replace(argument) for argument in args),
            {name: replace(argument) for name, argument in kwargs.items()},
        )
        for function, args, kwargs in items
    ]


def _size_bytes(argument: Any) -> int:
    """Return the size of arrays, frames, Arrow tables and bytes; 0 for other values."""
    if isinstance(argument, (bytes, bytearray, str)):
        return len(argument)
    size = getattr(argument, "nbytes", None)
    if isinstance(size, int):
        return size
    memory_usage = getattr(argument, "memory_usage", None)
    if callable(memory_usage):
        usage = memory_usage()
        return int(usage.sum() if hasattr(usage, "sum") else usage)
    return 0


# Tasks import this module, so that joblib calls inside them find the backend by its name, too.
BACKENDS.setdefault("phalanx", PhalanxBackend)
if (spoken := dialect.current()) is not None:
    BACKENDS.setdefault(spoken.backend_of_joblib, PhalanxBackend)
