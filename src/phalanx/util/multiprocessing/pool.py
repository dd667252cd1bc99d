"""A pool: a fixed number of processes, which are actors. A free process gets the batch that has
waited longest.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from multiprocessing.pool import CLOSE, RUN, TERMINATE
from typing import Any, NoReturn

from phalanx.api.cluster import cluster_resources
from phalanx.api.decorator import remote
from phalanx.api.objects import get, kill, put
from phalanx.api.session import init, is_initialized
from phalanx.errors import ActorError, NotPicklableError
from phalanx.util.multiprocessing.batch import Calls, PoolProcess
from phalanx.util.multiprocessing.result import AsyncResult, Batch, ResultIterator
from phalanx.util.slots import Slots

BATCHES_PER_PROCESS = 4
"""The number of batches that `map` makes for each process: few, so that they cost little, but
enough to even out differences in time.
"""

Callback = Callable[[Any], object]


class _Process:
    """One process of the pool. If `batches` is given, its actor is replaced after this number of
    batches.
    """

    def __init__(self, create: Callable[[], Any], batches: int | None) -> None:
        self._create = create
        self._batches = batches
        self._left = batches
        self.actor = create()

    def run(self, func: Callable[..., Any], calls: Calls) -> Any:
        return self._send(lambda: self.actor.run.remote(func, calls))

    def run_each(self, func: Callable[..., Any], items: list[Any]) -> Any:
        return self._send(lambda: self.actor.run_each.remote(func, items))

    def _send(self, send: Callable[[], Any]) -> Any:
        try:
            ref = send()
        except NotPicklableError as error:
            said, error.__cause__ = error.__cause__, None
            # before that, pickle's own error is raised, as in multiprocessing
            raise said or error from error
        if self._left is not None:
            self._left -= 1
            if not self._left:
                # The actor ends after the batch that was just sent; the next batch goes to its
                # successor.
                self.actor.__ray_terminate__.remote()
                self.actor, self._left = self._create(), self._batches
        return ref

    def ended(self, batch: Future[Any]) -> None:
        """Replace the actor if it died while it ran `batch`. That batch is lost, and the next batch
        runs on the new actor.
        """
        if not batch.cancelled() and isinstance(batch.exception(), ActorError):
            self.actor, self._left = self._create(), self._batches


class Pool:
    """A pool of processes with the interface of `multiprocessing.Pool`.

    `processes` is by default the number of the cluster's CPUs. If no runtime runs, one is started
    with `processes` CPUs. `initializer(*initargs)` runs first in each process; a process is
    replaced after `maxtasksperchild` batches. `address` names a cluster to connect to, and
    `remote_args` are options of the actors, such as `{"num_cpus": 1}`. Raises ValueError for fewer
    than one process and for more than the cluster has CPUs.

    Example:
        with Pool(processes=4) as pool:
            assert pool.map(abs, [-1, 2, -3]) == [1, 2, 3]
    """

    _iterator = ResultIterator
    """The class of the results of imap and imap_unordered."""

    def __init__(  # the signature of multiprocessing and of Ray
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: object = None,
        ray_address: str | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
        *,
        address: str | None = None,
        remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        if context is not None:
            warnings.warn("Pool starts its processes itself: context has no effect", stacklevel=2)
        if maxtasksperchild is not None and (
            not isinstance(maxtasksperchild, int) or maxtasksperchild < 1
        ):
            raise ValueError(
                f"maxtasksperchild must be None or an integer >= 1, got {maxtasksperchild!r}"
            )
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a callable, got {initializer!r}")
        count = _process_count(processes, address or ray_address)
        options = {"num_cpus": 0, **(ray_remote_args or {}), **(remote_args or {})}
        kind = remote(**options)(PoolProcess)
        arguments = (initializer, tuple(initargs or ()))
        self._pool = [
            _Process(lambda: kind.remote(*arguments), maxtasksperchild) for _ in range(count)
        ]
        get([process.actor.is_ready.remote() for process in self._pool])
        self._slots = Slots(self._pool, _Process.ended)
        self._state = RUN

    def apply(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwds: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return `func(*args, **kwds)`, called in a process of the pool."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwds: Mapping[str, Any] | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """Start a call of `func`. When it has ended, `callback(result)` or `error_callback(error)`
        is called.

        Example:
            result = pool.apply_async(pow, (2, 10))
            assert result.get(timeout=60) == 1024
        """
        batch = self._submit(func, [(tuple(args or ()), dict(kwds or {}))])
        return AsyncResult([batch], single=True, callback=callback, error_callback=error_callback)

    def map(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None
    ) -> list[Any]:
        """Return `[func(x) for x in iterable]`, computed in batches of `chunksize` calls."""
        results: list[Any] = self.map_async(func, iterable, chunksize).get()
        return results

    def map_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """Start `map` without waiting for the results."""
        return self._map_async(func, iterable, chunksize, callback, error_callback)

    def starmap(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[Any]:
        """Return `[func(*args) for args in iterable]`, computed in batches of `chunksize` calls.

        Example:
            assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
        """
        results: list[Any] = self.starmap_async(func, iterable, chunksize).get()
        return results

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callback | None = None,
        error_callback: Callback | None = None,
    ) -> AsyncResult:
        """Start `starmap` without waiting for the results."""
        calls: Iterator[Any] = ((tuple(items), {}) for items in iterable)
        return self._map_async(func, calls, chunksize, callback, error_callback, are_calls=True)

    def imap(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1
    ) -> ResultIterator:
        """Return an iterator over the results of `func(x)` in order, each as soon as it is ready.

        Example:
            for line in pool.imap(parse, open("log.txt"), chunksize=100):
                print(line)
        """
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1
    ) -> ResultIterator:
        """Return an iterator over the results of `func(x)`, each as soon as it is ready, in any
        order."""
        return self._imap(func, iterable, chunksize, ordered=False)

    def close(self) -> None:
        """Accept no more calls. Accepted calls are still made."""
        if self._state == RUN:
            self._state = CLOSE

    def terminate(self) -> None:
        """End the processes immediately. Waiting and running calls fail."""
        if self._state == TERMINATE:
            return
        self._state = TERMINATE
        self._slots.fail_waiting(ValueError("the pool was terminated before this call began"))
        for process in self._pool:
            kill(process.actor)

    def join(self) -> None:
        """Wait until the accepted calls are done, and end the processes.

        Raises ValueError while the pool is open.
        """
        if self._state == RUN:
            raise ValueError("the pool is still running: call close() or terminate() before join()")
        self._slots.wait_until_idle()
        self.terminate()

    def __enter__(self) -> Pool:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def __del__(self) -> None:
        if getattr(self, "_state", CLOSE) == RUN:
            warnings.warn(
                f"unclosed running multiprocessing pool {self!r}",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("a Pool cannot be pickled: make one where it is used")

    def _check_open(self) -> None:
        if self._state != RUN:
            raise ValueError("Pool not running: it was closed or terminated")

    def _submit(self, func: Callable[..., Any], calls: Calls) -> Batch:
        return self._begin(lambda process: process.run(func, calls))

    def _submit_each(self, func: Callable[..., Any], items: list[Any]) -> Batch:
        return self._begin(lambda process: process.run_each(func, items))

    def _begin(self, run: Callable[[_Process], Any]) -> Batch:
        self._check_open()
        batch: Batch = Future()
        self._slots.submit(run, batch)
        return batch

    def _map_async(
        self,
        func: Callable[..., Any],
        items: Iterable[Any],
        chunksize: int | None,
        callback: Callback | None,
        error_callback: Callback | None,
        *,
        are_calls: bool = False,
    ) -> AsyncResult:
        self._check_open()
        ready = list(items)
        if chunksize is None:
            chunksize = -(-len(ready) // (len(self._pool) * BATCHES_PER_PROCESS)) or 1
        _check_size(chunksize)
        shared = _shipped_once(func)
        submit = self._submit if are_calls else self._submit_each
        batches = [submit(shared, chunk) for chunk in _chunks(ready, chunksize)]
        return AsyncResult(batches, single=False, callback=callback, error_callback=error_callback)

    def _imap(
        self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int, *, ordered: bool
    ) -> ResultIterator:
        self._check_open()
        _check_size(chunksize)
        shared = _shipped_once(func)
        batches = (self._submit_each(shared, chunk) for chunk in _chunks(iterable, chunksize))
        return self._iterator(batches, ahead=2 * len(self._pool), ordered=ordered)


def _process_count(processes: int | None, address: str | None) -> int:
    if processes is not None and processes < 1:
        raise ValueError(f"a pool needs at least one process, got processes={processes}")
    if not is_initialized():
        _start(processes if address in (None, "local") else None, address)
    cpus = int(cluster_resources().get("CPU", 0))
    if processes is None:
        processes = max(1, cpus)
    if processes > cpus:
        raise ValueError(
            f"a pool of {processes} processes is too large: the cluster has {cpus} CPUs; "
            "use fewer processes, or start the runtime with more num_cpus"
        )
    return processes


def _start(cpus: int | None, address: str | None) -> None:
    """Connect to a cluster that runs here or, if there is none, start a runtime with this many
    CPUs.
    """
    if cpus is not None:
        try:
            init(address=address, num_cpus=cpus)
        except ValueError:  # a cluster runs here, which has CPUs of its own
            pass
        else:
            return
    init(address=address)


def _shipped_once(func: Callable[..., Any]) -> Any:
    """Return a reference to the function, so that it is pickled once instead of with every
    batch.
    """
    return put(func)


def _check_size(chunksize: int) -> None:
    if chunksize < 1:
        raise ValueError(f"chunksize must be at least 1, got {chunksize}")


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    left = iter(items)
    while chunk := list(itertools.islice(left, size)):
        yield chunk
