"""Python's own two pools. Their processes are forked, and they are used as in their
documentation.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx_benchmarks.pools.futures import Futures
from phalanx_benchmarks.pools.pool import CPUS

CHUNK = 100
"""The number of items of a map that are sent together. `multiprocessing.Pool` chooses about the
same number by default.
"""


class _Multiprocessing:
    def __init__(self) -> None:
        self._pool = multiprocessing.get_context("fork").Pool(CPUS)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._pool.apply_async(function, arguments)

    def results(self, submitted: Sequence[Any]) -> list[Any]:
        return [one.get() for one in submitted]

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return self._pool.map(function, items)

    def share(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


class _Executor(Futures):
    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return list(self._executor.map(function, items, chunksize=CHUNK))


def multiprocessing_pool() -> _Multiprocessing:
    """Start a `multiprocessing.Pool`."""
    return _Multiprocessing()


def process_pool_executor() -> Futures:
    """Start a `concurrent.futures.ProcessPoolExecutor`."""
    context = multiprocessing.get_context("fork")
    return _Executor(concurrent.futures.ProcessPoolExecutor(CPUS, mp_context=context))
