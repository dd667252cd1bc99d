"""One build's side of `paired_builds`: measures a batch of calls for each line that it reads.

The file runs by its path, so that the interpreter of an older build can run it, too. It uses only
the public interface of `phalanx`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import phalanx

BATCH = 25
"""The number of calls in a batch, made one by one."""
BURST = 1000
"""The number of calls in a burst, made before the first result is read."""


@phalanx.remote
def give(value: int = 1) -> int:
    """Return the value."""
    return value


@phalanx.remote
class Giver:
    """An actor with the function `give` as a method."""

    def give(self, value: int = 1) -> int:
        """Return the value."""
        return value


def one_by_one(call: Callable[[], phalanx.ObjectRef[int]]) -> float:
    """Return the seconds of one call with its result."""
    begin = time.perf_counter()
    for _ in range(BATCH):
        phalanx.get(call())
    return (time.perf_counter() - begin) / BATCH


def in_a_burst(call: Callable[[], phalanx.ObjectRef[int]]) -> float:
    """Return the seconds of one call of a burst with all its results."""
    begin = time.perf_counter()
    phalanx.get([call() for _ in range(BURST)])
    return (time.perf_counter() - begin) / BURST


def put() -> float:
    """Return the seconds of one `put` of a small value."""
    begin = time.perf_counter()
    for _ in range(BATCH):
        phalanx.put(7)
    return (time.perf_counter() - begin) / BATCH


def wait() -> float:
    """Return the seconds for each of fifty results that `wait` waits for."""
    refs = [give.remote() for _ in range(50)]
    begin = time.perf_counter()
    phalanx.wait(refs, num_returns=50)
    return (time.perf_counter() - begin) / 50


def serve() -> None:
    """Answer each line, the name of a row, with the seconds of one call."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    phalanx.init(num_cpus=2)
    giver = Giver.options(num_cpus=0).remote()
    rows: dict[str, Callable[[], float]] = {
        "task": lambda: one_by_one(give.remote),
        "task with an argument": lambda: one_by_one(lambda: give.remote(5)),
        "actor's call": lambda: one_by_one(giver.give.remote),
        "actor's call with an argument": lambda: one_by_one(lambda: giver.give.remote(5)),
        "task in a burst": lambda: in_a_burst(give.remote),
        "actor's call in a burst": lambda: in_a_burst(giver.give.remote),
        "wait": wait,
        "put": put,
    }
    answers.write("\t".join(rows) + "\n")
    for line in sys.stdin:
        answers.write(f"{rows[line.strip()]()}\n")


if __name__ == "__main__":
    serve()
