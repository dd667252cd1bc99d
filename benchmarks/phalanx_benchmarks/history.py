"""The speed of the history of jobs with five million records, and the cost of sampling for a
node.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator

from phalanx.model.attempts import Attempt, AttemptRow, Used
from phalanx.node.usage import MemberUsage, UsageSample
from phalanx.observe.accounting.questions import MAX_ATTEMPTS, AttemptQuery, UsageQuery
from phalanx.runtime.os.usage_meter import look_at
from phalanx.storage.ledger import HistoryLimits, SqliteLedger

Clock = Callable[[], float]
"""A function that returns the seconds of a monotonic clock."""

Figures = dict[str, str | float]

RECORDS = 5_000_000
_BATCH = 10_000
_DAY_S = 86_400
_YEAR_S = 365 * _DAY_S
_START_S = 1_760_000_000
_USERS = 120
_QUEUES = 8
_MEMBERS = 100
_AGAIN = 9


def run(clock: Clock) -> list[Figures]:
    """Return the rows of the history and of sampling.

    First, a year's attempts of 120 users in 8 queues are written in batches of 10,000. Then queries
    run; each figure is the median of nine runs. At the end, the processes of a node with 100
    members are sampled.
    """
    directory = tempfile.mkdtemp(prefix="phx-")
    try:
        path = os.path.join(directory, "history")
        ledger = SqliteLedger(path, HistoryLimits(days=400, records=RECORDS))
        now = _START_S + _YEAR_S
        began = clock()
        for batch in _batches():
            ledger.add(batch, now)
        filled_s = clock() - began
        rows: list[Figures] = [
            {"what": f"records kept a second, of {RECORDS:,}", "figure": RECORDS / filled_s},
            {"what": "bytes a record", "figure": _size(path) / RECORDS},
        ]
        month = now - 30 * _DAY_S
        questions: dict[str, Callable[[], object]] = {
            "a user's last month, whole, ms": lambda: ledger.attempts(
                AttemptQuery(since=month, users=["user7"], limit=MAX_ATTEMPTS)
            ),
            "the last 100 of a queue, ms": lambda: ledger.attempts(
                AttemptQuery(since=month, queues=["queue3"], limit=100)
            ),
            "one job, ms": lambda: ledger.attempts(AttemptQuery(job="default/job777")),
            "report of a month, ms": lambda: ledger.usage(UsageQuery(since=month)),
        }
        for what, ask in questions.items():
            rows.append({"what": what, "figure": 1e3 * _median(ask, clock)})
        ledger.close()
        return [*rows, *_sampling(clock)]
    finally:
        shutil.rmtree(directory)


def _batches() -> Iterator[list[AttemptRow]]:
    rng = random.Random(7)
    for first in range(0, RECORDS, _BATCH):
        numbers = range(first, min(first + _BATCH, RECORDS))
        yield [AttemptRow(key=_key(rng), attempt=_attempt(number, rng)) for number in numbers]


def _key(rng: random.Random) -> bytes:
    return rng.randbytes(18) + bytes(8)


def _attempt(number: int, rng: random.Random) -> Attempt:
    ended = _START_S + number * _YEAR_S / RECORDS
    ran_s = min(rng.lognormvariate(5, 2), 3 * _DAY_S)
    gpus = float(rng.choice((0, 0, 1, 1, 2, 8)))
    used = Used(ran_s=ran_s, cpu_s=ran_s, memory_max=1e9, gpus=int(gpus), gpu_mean=0.5, samples=9)
    return Attempt(
        job=f"job{number // 4}", namespace="default", member=f"worker-{number % 4}", attempt=1,
        user=f"user{rng.randrange(_USERS)}", queue=f"queue{rng.randrange(_QUEUES)}",
        command="python train.py --config lab.yaml", state="Completed", exit_code=0,
        node=f"node{rng.randrange(100)}", cpus=4.0, memory=8e9, gpus=gpus,
        submitted=ended - ran_s - 60, started=ended - ran_s, ended=ended, waited_s=60.0, used=used,
    )  # fmt: skip


def _size(path: str) -> int:
    return sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))


def _median(ask: Callable[[], object], clock: Clock) -> float:
    took = []
    for _ in range(_AGAIN):
        began = clock()
        ask()
        took.append(clock() - began)
    return statistics.median(took)


def _sampling(clock: Clock) -> list[Figures]:
    """Measure one sampling of 100 members: the sampling thread, and the handling in the node's
    loop.
    """
    commands = [subprocess.Popen(("sleep", "600")) for _ in range(_MEMBERS)]
    try:
        pids = [command.pid for command in commands]
        usages = [MemberUsage(1.0, (), 0.0) for _ in pids]
        for usage, pid in zip(usages, pids, strict=True):
            usage.began(b"", pid)
        seen = UsageSample(look_at(pids), {})

        def take_in() -> None:
            for usage in usages:
                usage.sample(5.0, seen)

        return [
            {"what": f"a look at {_MEMBERS} members, ms", "figure": 1e3 * _median(
                lambda: look_at(pids), clock)},
            {"what": "taking it in, ms", "figure": 1e3 * _median(take_in, clock)},
        ]  # fmt: skip
    finally:
        for command in commands:
            command.kill()
            command.wait()
