"""Rows of common work that is not in Ray's microbenchmark: values that are passed between
processes, and tasks that submit tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx_benchmarks.row import PROGRAMS, Api, loop
from phalanx_benchmarks.rows.tasks import small_task

MIB_OF_FLOATS = 1024 * 1024 // 8
HUNDRED = 100


def _first(api: Api) -> Any:
    def first(values: Any) -> float:
        return float(values[0])

    return api.remote(first)


def _put_and_read(api: Api) -> Callable[[], object]:
    values, first = np.ones(MIB_OF_FLOATS), _first(api)
    return lambda: api.get(first.remote(api.put(values)))


def _get_once(api: Api) -> Callable[[], object]:
    def make() -> Any:
        return np.ones(MIB_OF_FLOATS)

    task = api.remote(make)
    return lambda: float(api.get(task.remote())[0])


def _through_three(api: Api) -> Callable[[], object]:
    def more(values: Any) -> Any:
        return values + 1

    values, task, first = np.ones(MIB_OF_FLOATS), api.remote(more), _first(api)
    return lambda: api.get(first.remote(task.remote(task.remote(values))))


def _with_arguments(api: Api) -> Callable[[], object]:
    def size(value: bytes) -> int:
        return len(value)

    value, task = b"x" * 10_240, api.remote(size)
    return lambda: api.get([task.remote(value) for _ in range(HUNDRED)])


def _with_results(api: Api) -> Callable[[], object]:
    def make() -> bytes:
        return b"x" * 10_240

    task = api.remote(make)
    return lambda: api.get([task.remote() for _ in range(HUNDRED)])


def _within(api: Api) -> Callable[[], object]:
    inner = small_task(api)

    def outer() -> bytes:
        value: bytes = api.get(inner.remote())
        return value

    task = api.remote(outer)
    return lambda: api.get(task.remote())


ROWS = (
    loop("put of 1 MiB, read by another process", _put_and_read, group=PROGRAMS),
    loop("1 MiB made by a task, read once", _get_once, group=PROGRAMS),
    loop("1 MiB through three processes", _through_three, group=PROGRAMS),
    loop("tasks with 10 KiB each", _with_arguments, per_call=HUNDRED, group=PROGRAMS),
    loop("tasks that return 10 KiB", _with_results, per_call=HUNDRED, group=PROGRAMS),
    loop("a task that runs a task", _within, group=PROGRAMS),
)
