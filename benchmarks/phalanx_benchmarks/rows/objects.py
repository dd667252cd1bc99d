"""Rows of objects: puts and gets of small and large values, from one client and from several."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phalanx_benchmarks.row import Api, loop
from phalanx_benchmarks.rows.floors import COPIES

LARGE = 100 * 1024 * 1024
"""The number of elements, of eight bytes each, in the array that Ray's benchmark counts as 0.8 GB.
The elements are ones, not zeros, so that each page is in memory. Unwritten pages would be read
faster than real memory.
"""
SMALLER = 10 * 1024 * 1024
PAGES_TOUCHED = 40
"""The number of calls of 0.8 GB in the warm-up. A store is several times as fast once each of its
pages was touched.
"""


def _get_small(api: Api) -> Callable[[], object]:
    ref = api.put(0)
    return lambda: api.get(ref)


def _put_small(api: Api) -> Callable[[], object]:
    return lambda: api.put(0)


def _put_small_from_tasks(api: Api) -> Callable[[], object]:
    def put_hundred() -> None:
        for _ in range(100):
            api.put(0)

    task = api.remote(put_hundred)
    return lambda: api.get([task.remote() for _ in range(10)])


def _put_large(api: Api) -> Callable[[], object]:
    array = np.ones(LARGE, dtype=np.int64)

    def put() -> None:
        api.put(array)

    return put


def _put_large_from_tasks(api: Api) -> Callable[[], object]:
    size = SMALLER

    def put_ten() -> None:
        array = np.ones(size, dtype=np.int64)
        for _ in range(10):
            api.put(array)

    task = api.remote(put_ten)
    return lambda: api.get([task.remote() for _ in range(10)])


def _get_object_of_refs(api: Api) -> Callable[[], object]:
    def make_refs() -> list[object]:
        return [api.put(1) for _ in range(10_000)]

    ref = api.remote(make_refs).remote()
    return lambda: api.get(ref)


OWN_MEMORY = "a small value stays in its owner's memory here, and goes to the store on Ray"
"""The reason why no mean includes the rows of small values. The rows of PROGRAMS measure the cost
of a value for another process.
"""

ROWS = (
    loop("get of a small value that was put", _get_small, aside=OWN_MEMORY),
    loop("put of a small value", _put_small, aside=OWN_MEMORY),
    loop(
        "put of small values, several clients",
        _put_small_from_tasks,
        per_call=1000,
        aside=OWN_MEMORY,
    ),
    loop(
        "single client put gigabytes",
        _put_large,
        per_call=0.8,
        unit="GB/s",
        floors=COPIES,
        warm_up_calls=PAGES_TOUCHED,
    ),
    loop(
        "multi client put gigabytes",
        _put_large_from_tasks,
        per_call=10 * 0.8,
        unit="GB/s",
        floors=COPIES,
        warm_up_calls=PAGES_TOUCHED,
    ),
    loop("single client get object containing 10k refs", _get_object_of_refs),
)
