"""Answers the questions of the web page in place of simulated nodes, their processes and a history
of jobs: finished tasks, use over time, output, and the use of a hundred people. Five processes
remember 20,000 finished tasks each.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from phalanx.model.attempts import Attempt
from phalanx.model.ids import PROCESS_ID_BYTES
from phalanx.model.lifecycle import FAILED, FINISHED
from phalanx.model.member_use import MemberUse
from phalanx.model.node_use import NodeUse, NumberOfNode, ProcessOfNode
from phalanx.observe.accounting.questions import AttemptPage, UsageRow
from phalanx.observe.accounting.sums import HourSum
from phalanx.observe.devices import DeviceSample
from phalanx.observe.state.finished_tasks import offer_finished
from phalanx.observe.state.query import Selection, StateAnswer, StateQuery
from phalanx.observe.state.task_rows import finished_task_row
from phalanx.observe.task_journal import KEEP_RUNS, Run
from phalanx.protocol.report_messages import DevicesSeen, MachineSeen
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.jobs import GetMemberUse, LogPart, ReadJobLog
from phalanx.protocol.requests.node_use import GetNodeUse
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState
from phalanx_benchmarks.fed_head import GPUS, TOTAL, prefix_of

OWNERS = 5
WORKERS = 400
FUNCTIONS = ("load_shard", "augment", "train_step", "evaluate", "export")
POINTS = 90
_LINE = b"step 1200: loss 0.123\n"
_LOG = _LINE * 20_000


def machine_reports(node: int) -> tuple[DevicesSeen, MachineSeen]:
    """Return the reports of a node about its GPUs and its machine."""
    rng = random.Random(node)
    samples = [
        DeviceSample(
            number=number, busy=rng.random(), memory_used=rng.randrange(80 << 30),
            memory_total=80 << 30, temperature_c=rng.uniform(30.0, 85.0),
        )
        for number in range(GPUS)
    ]  # fmt: skip
    return DevicesSeen(samples), MachineSeen(rng.uniform(0.0, 64.0), rng.uniform(0.0, 512 * 2**30))


class AnswersOfNodes:
    """Answers the requests for which a head asks its nodes. `wall` returns the seconds since the
    epoch.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        rng = random.Random(0)
        now = wall()
        self._runs = [
            (_owner(owner), _run(rng, number, now))
            for owner in range(OWNERS)
            for number in range(KEEP_RUNS)
        ]

    def answer(self, request: Request[Any]) -> Any:
        """Return an answer; None if the head itself answers the request."""
        match request:
            case QueryState(query) if query.kind in ("tasks", "objects", "stores"):
                return StateAnswer(self._part(query), [])
            case GetNodeUse(_, span_s):
                return _node_use(span_s)
            case GetMemberUse():
                wave = [(10.0, 3.0 + at % 7) for at in range(POINTS)]
                return MemberUse(cpus=wave, memory=wave, gpus=[(s, v / 10) for s, v in wave])
            case ReadJobLog(_, _, _, offset):
                return LogPart(_LOG[offset : offset + 65_536], len(_LOG))
            case GetUsage():
                sums = HourSum(attempts=400, completed=390, cpu_s=4e6, gpu_s=4e6, waits={})
                return [UsageRow(user=f"user{n}", queue="default", sum=sums) for n in range(100)]
            case ListAttempts(query):
                return AttemptPage(attempts=[_attempt(n) for n in range(query.limit)])
        return None

    def _part(self, query: StateQuery) -> Any:
        selection = Selection(query)
        if query.kind == "tasks":
            offer_finished(selection, self._runs, finished_task_row)
        return selection.part()


def _owner(number: int) -> bytes:
    return prefix_of(number + 1).ljust(PROCESS_ID_BYTES, b"o")


def _run(rng: random.Random, number: int, now: float) -> Run:
    worker = rng.randrange(WORKERS)
    length = rng.expovariate(2.0)
    ended = now - rng.random() * 120.0
    has_failed = rng.random() < 0.01
    return Run(
        number=number,
        name=rng.choice(FUNCTIONS),
        state=FAILED if has_failed else FINISHED,
        started=ended - length,
        ended=ended,
        worker=prefix_of(worker // 8 + 1) + worker.to_bytes(10, "big"),
        attempt=0,
        created=ended - length - 0.1,
        error="TASK_EXECUTION_EXCEPTION" if has_failed else "",
        summary="ValueError: no such shard" if has_failed else "",
    )


def _attempt(number: int) -> Attempt:
    return Attempt(
        job=f"job-{number}", namespace="default", member="worker-0", attempt=1,
        user=f"user{number % 100}", queue="default", command="python train.py", state="COMPLETED",
        exit_code=0, node="n0001", cpus=1.0, gpus=1.0, submitted=1_000.0, started=1_060.0,
        ended=2_000.0 + number, waited_s=60.0,
    )  # fmt: skip


def _node_use(span_s: float) -> NodeUse:
    agos = [span_s * (POINTS - at) / POINTS for at in range(POINTS)]
    parts = {"total": 1.0, "allocated": 0.8, "used": 0.6}
    return NodeUse(
        numbers=[
            NumberOfNode(what=what, of=name, points=[(ago, part * TOTAL[name]) for ago in agos])
            for name in ("GPU", "CPU", "memory")
            for what, part in parts.items()
        ],
        processes=[
            ProcessOfNode(kind="worker", name="runs tasks", pid=4_000 + at, age_s=60.0, cpus=1.0)
            for at in range(20)
        ],
    )
