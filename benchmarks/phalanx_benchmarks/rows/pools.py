"""Rows of work that every pool of processes can do: single calls, many calls, and calls with
values.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from phalanx_benchmarks.measure import Effort, rates
from phalanx_benchmarks.pools.pool import Pool
from phalanx_benchmarks.row import POOLS, Row

THOUSAND = 1000
KIB = 1024
MIB = 1024 * KIB
MakePool = Callable[[], Pool]


def _calls(work: Callable[[Pool], Callable[[], object]], per_call: float) -> Any:
    def sample(make: MakePool, effort: Effort) -> list[float]:
        pool = make()
        try:
            return rates(work(pool), per_call=per_call, effort=effort)
        finally:
            pool.close()

    return sample


def _first_result(make: MakePool, effort: Effort) -> list[float]:
    samples = []
    for _ in range(effort.repetitions):
        began = time.perf_counter()
        pool = make()
        pool.results([pool.submit(abs, -1)])
        samples.append(time.perf_counter() - began)
        pool.close()
    return samples


def _one_by_one(pool: Pool) -> Callable[[], object]:
    return lambda: pool.results([pool.submit(abs, -1)])


def _submitted_together(pool: Pool) -> Callable[[], object]:
    return lambda: pool.results([pool.submit(abs, -1) for _ in range(THOUSAND)])


def _mapped(pool: Pool) -> Callable[[], object]:
    return lambda: pool.map(abs, range(10 * THOUSAND))


def _with_arguments(pool: Pool) -> Callable[[], object]:
    value = b"x" * (10 * KIB)
    return lambda: pool.results([pool.submit(len, value) for _ in range(100)])


def _with_results(pool: Pool) -> Callable[[], object]:
    return lambda: pool.results([pool.submit(bytes, 10 * KIB) for _ in range(100)])


def _large_results(pool: Pool) -> Callable[[], object]:
    return lambda: pool.results([pool.submit(bytes, MIB) for _ in range(10)])


def _shared(pool: Pool) -> Callable[[], object]:
    value = b"x" * (10 * MIB)

    def work() -> None:
        shared = pool.share(value)
        pool.results([pool.submit(len, shared) for _ in range(20)])

    return work


def _row(name: str, sample: Any, unit: str = "/s") -> Row:
    more = unit == "/s"
    return Row(name=name, unit=unit, sample=sample, group=POOLS, session=False, more_is_better=more)


ROWS = (
    _row("pool: started, and the first result", _first_result, "s"),
    _row("pool: calls one by one", _calls(_one_by_one, 1)),
    _row("pool: 1,000 calls, then all results", _calls(_submitted_together, THOUSAND)),
    _row("pool: map over 10,000 items", _calls(_mapped, 10 * THOUSAND)),
    _row("pool: calls with 10 KiB each", _calls(_with_arguments, 100)),
    _row("pool: calls that return 10 KiB", _calls(_with_results, 100)),
    _row("pool: calls that return 1 MiB", _calls(_large_results, 10)),
    _row("pool: one value of 10 MiB given to 20 calls", _calls(_shared, 20)),
)
