"""Rows of the limits of one node, after Ray's release benchmark: the numbers of arguments, of
results, of objects in one get and of waiting tasks, and the largest object.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phalanx_benchmarks.measure import Effort, seconds
from phalanx_benchmarks.row import Api, release

ARGUMENTS = 10_000
RESULTS = 3_000
OBJECTS = 10_000
NUMBERS = 10_000
"""The length of each list and array in these rows."""
QUEUED = 20_000
LARGEST_GIB = 4
_GIB = 1 << 30


def _arguments(api: Api, effort: Effort) -> list[float]:
    def total(*lists: list[int]) -> int:
        return sum(map(sum, lists))

    lists = [[1] * NUMBERS for _ in range(ARGUMENTS)]
    task = api.remote(total)
    return seconds(lambda: _expect(api.get(task.remote(*lists)), ARGUMENTS * NUMBERS), times=1)


def _results(api: Api, effort: Effort) -> list[float]:
    def make() -> list[list[int]]:
        return [list(range(NUMBERS)) for _ in range(RESULTS)]

    task, wanted = api.remote(num_returns=RESULTS)(make), list(range(NUMBERS))

    def read_one_by_one() -> None:
        for ref in task.remote():
            _expect(api.get(ref), wanted)

    return seconds(read_one_by_one, times=1)


def _in_one_get(api: Api, effort: Effort) -> list[float]:
    """Get lists, which are unpickled, and then arrays, which are read in place."""
    wanted = np.arange(NUMBERS)

    def put_and_get() -> None:
        refs = [api.put(list(range(NUMBERS))) for _ in range(OBJECTS)]
        _expect(sum(map(len, api.get(refs))), OBJECTS * NUMBERS)
        refs = [api.put(np.arange(NUMBERS)) for _ in range(OBJECTS)]
        _expect(all((array == wanted).all() for array in api.get(refs)), True)

    return seconds(put_and_get, times=1)


def _queued(api: Api, effort: Effort) -> list[float]:
    """Submit tasks while all CPUs are held, and then run them."""

    class Door:
        def __init__(self) -> None:
            import asyncio

            self._is_open = asyncio.Event()

        async def open(self) -> None:
            self._is_open.set()

        async def wait(self) -> None:
            await self._is_open.wait()

    door: Any = api.remote(num_cpus=0)(Door).remote()

    def hold() -> None:
        api.get(door.wait.remote())

    def nothing() -> None:
        return None

    holding, task = api.remote(num_cpus=1)(hold), api.remote(num_cpus=1)(nothing)

    def queue_and_run() -> None:
        held = [holding.remote() for _ in range(int(api.cluster_resources()["CPU"]))]
        queued = [task.remote() for _ in range(QUEUED)]
        api.get(door.open.remote())
        api.get([*held, *queued])

    return seconds(queue_and_run, times=1)


def _largest(api: Api, effort: Effort) -> list[float]:
    array = np.ones(LARGEST_GIB * _GIB, np.uint8)

    def put_and_get() -> None:
        found = api.get(api.put(array))
        _expect(int(found[0]) + int(found[-1]), 2)

    return seconds(put_and_get, times=1)


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError("the system returned a value other than the one that was made")


ROWS = (
    release(f"{ARGUMENTS:,} arguments to a task, lists of {NUMBERS:,}", _arguments),
    release(f"{RESULTS:,} results of a task, lists of {NUMBERS:,}", _results),
    release(f"{OBJECTS:,} lists, then arrays, put and read in one get", _in_one_get),
    release(f"{QUEUED:,} tasks queued, then run", _queued),
    release(
        f"an array of {LARGEST_GIB} GiB put and read",
        _largest,
        init={"object_store_memory": (LARGEST_GIB + 1) * _GIB},
    ),
)
