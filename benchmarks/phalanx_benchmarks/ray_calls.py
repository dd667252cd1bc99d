"""The cost of Phalanx for a program on Ray: calls through Phalanx and Ray's own calls, measured
alternately.

`run(clock)` returns rows for a task that returns nothing, submitted many together and one by one:
by Ray itself, through Phalanx without a queue, and as a task of a queue. Figures are medians of
all rounds.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Clock = Callable[[], float]
Row = dict[str, Any]

CPUS = 2
ROUNDS = 9
AT_ONCE, ONE_BY_ONE = 1_000, 200
STORE_BYTES = 80 << 20
PLAIN, THROUGH, OF_QUEUE = "Ray's own", "Phalanx, no queue", "Phalanx, of a queue"


def run(
    clock: Clock, rounds: int = ROUNDS, at_once: int = AT_ONCE, one_by_one: int = ONE_BY_ONE
) -> list[Row]:
    """Return the microseconds of a task for each kind of call: for its submission, until its
    result, and for one task at a time.
    """
    with _tasks() as (ways, get):
        took: dict[str, list[list[float]]] = {way: [] for way in ways}
        order = list(ways)
        for _ in range(rounds):
            order.append(order.pop(0))  # each way of calling goes first equally often
            for way in order:
                took[way].append(_round(clock, ways[way], get, at_once, one_by_one))
    return [
        {
            "what": f"{name}: {way}",
            "us a task": statistics.median(figures[at] for figures in took[way]),
            "beside Ray's": statistics.median(
                ours[at] / theirs[at] for ours, theirs in zip(took[way], took[PLAIN], strict=True)
            ),
            "more us": statistics.median(
                ours[at] - theirs[at] for ours, theirs in zip(took[way], took[PLAIN], strict=True)
            ),
        }
        for at, name in enumerate(("to submit many", "many at once", "one by one"))
        for way in ways
    ]


def _round(clock: Clock, task: Any, get: Any, at_once: int, one_by_one: int) -> list[float]:
    get([task.remote() for _ in range(20)])
    begun = clock()
    refs = [task.remote() for _ in range(at_once)]
    submitted = clock()
    get(refs)
    ended = clock()
    for _ in range(one_by_one):
        get(task.remote())
    alone = clock()
    return [
        1e6 * (submitted - begun) / at_once,
        1e6 * (ended - begun) / at_once,
        1e6 * (alone - ended) / one_by_one,
    ]


@contextmanager
def _tasks() -> Iterator[tuple[dict[str, Any], Any]]:
    import ray

    import phalanx

    directory = tempfile.mkdtemp(prefix="phx-", dir="/tmp")
    os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": directory}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

    def nothing() -> None:
        return None

    try:
        ray.init(
            num_cpus=CPUS,
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            log_to_driver=False,
            logging_level="ERROR",
        )
        phalanx.init("ray:local")
        phalanx.create_queue("team")
        ours = phalanx.remote(nothing)
        ways = {PLAIN: ray.remote(nothing), THROUGH: ours, OF_QUEUE: ours.options(queue="team")}
        yield ways, phalanx.get
    finally:
        phalanx.shutdown()
        ray.shutdown()
        shutil.rmtree(directory, ignore_errors=True)
