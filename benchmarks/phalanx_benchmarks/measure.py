"""Measures a row: a warm-up, and then repetitions, of which all samples are kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured. `warm_up_s` and `repetition_s` are the seconds of a warm-up and of a
    repetition. After `limit_s` seconds, a row with at least one repetition starts no further
    repetition. `scale` reduces large counts, such as a million tasks. `rounds` is the number of
    times that each side measures a row, each time in a new process.
    """

    rounds: int
    warm_up_s: float
    repetitions: int
    repetition_s: float
    limit_s: float
    scale: float


EFFORTS = {
    "full": Effort(
        rounds=6, warm_up_s=1.0, repetitions=4, repetition_s=0.5, limit_s=60.0, scale=1.0
    ),
    "quick": Effort(
        rounds=4, warm_up_s=0.3, repetitions=3, repetition_s=0.25, limit_s=10.0, scale=0.1
    ),
}

Clock = Callable[[], float]


def rates(
    work: Callable[[], object],
    *,
    per_call: float,
    effort: Effort,
    warm_up_calls: int = 1,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Return one sample for each repetition: the units per second of `work`, a call of which does
    `per_call` units. The warm-up lasts for `effort.warm_up_s` seconds and at least `warm_up_calls`
    calls. After that, the clock is read only once for all calls that fit into a tenth of the
    warm-up, so that reading the clock does not slow down short calls.
    """
    began = clock()
    calls = 0
    while clock() - began < effort.warm_up_s or calls < warm_up_calls:
        work()
        calls += 1
    stride = int(calls * effort.warm_up_s / (clock() - began)) // 10 + 1
    samples: list[float] = []
    for _ in range(effort.repetitions):
        start = clock()
        calls = 0
        while clock() - start < effort.repetition_s:
            for _ in range(stride):
                work()
            calls += stride
        samples.append(per_call * calls / (clock() - start))
        if clock() - began > effort.limit_s:
            break
    return samples


def seconds(
    work: Callable[[], object],
    *,
    times: int,
    after: Callable[[], object] | None = None,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Return the seconds of each of `times` runs of `work`. `after` cleans up outside the measured
    time.
    """
    samples: list[float] = []
    for _ in range(times):
        start = clock()
        work()
        samples.append(clock() - start)
        if after is not None:
            after()
    return samples
