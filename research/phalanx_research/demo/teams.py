"""Two teams' queues on one machine: one gang runs, another gang waits, and an urgent gang starts
before it.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from rich.console import Console

import phalanx

TEAMS = {"vision": 2, "language": 1}
"""The weight of each team's queue."""
URGENT = 100
_PATIENCE_S = 120.0


class Shared(NamedTuple):
    """The result: the size of the gangs, the reason why one gang waited, and the number of starts
    of the first gang.
    """

    members: int
    explained: str
    starts: int


class Gate:
    """An actor that holds its callers until it opens, and counts them."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._came = asyncio.Condition()
        self._come = 0

    async def enter(self) -> None:
        """Wait until the gate is open."""
        async with self._came:
            self._come += 1
            self._came.notify_all()
        await self._open.wait()

    async def open(self) -> None:
        """Open the gate for all callers."""
        self._open.set()

    async def come(self, count: int) -> int:
        """Wait until at least `count` callers have entered. Returns their number."""
        async with self._came:
            await self._came.wait_for(lambda: self._come >= count)
        return self._come


def train_when_open(gate: Any) -> int:
    """Do the work of a member that waits until the gate is open. Returns its rank."""
    phalanx.get(gate.enter.remote())
    return evaluate_alone()


def evaluate_alone() -> int:
    """Do the work of a member that ends immediately. Returns its rank."""
    gang = phalanx.get_runtime_context().gang
    return -1 if gang is None else gang.rank


def share(console: Console) -> Shared:
    """Run three gangs: one takes all CPUs, another team's gang waits, and an urgent gang preempts
    the first.

    Raises RuntimeError if a gang returned wrong ranks, and GetTimeoutError if a gang took too long.
    """
    known = {queue["name"] for queue in phalanx.queues()}
    for name, weight in TEAMS.items():
        if name not in known:
            phalanx.create_queue(name, weight=weight)
    size = max(int(phalanx.cluster_resources().get("CPU", 1)), 1)
    size = min(size, max(int(node["Resources"].get("CPU", 0)) for node in phalanx.nodes()))
    gate: Any = phalanx.remote(num_cpus=0)(Gate).remote()
    train, evaluate = phalanx.remote(train_when_open), phalanx.remote(evaluate_alone)
    first = train.gang(size, queue="vision", grace_s=0.5).remote(gate)
    phalanx.get(gate.come.remote(size), timeout=_PATIENCE_S)
    console.print(f"queue vision: a gang of {size} runs", highlight=False)
    waits = evaluate.gang(size, queue="language").remote()
    explained = phalanx.explain(waits)
    console.print(f"queue language: a gang of {size} waits. Why?", highlight=False)
    console.print(explained, highlight=False, markup=False)
    urgent = evaluate.gang(size, queue="vision", priority=URGENT).remote()
    _check(urgent, size)
    console.print("an urgent gang preempted the first one, which continues later", highlight=False)
    phalanx.get(gate.open.remote(), timeout=_PATIENCE_S)
    _check(first, size)
    _check(waits, size)
    starts = phalanx.get(gate.come.remote(size), timeout=_PATIENCE_S)
    phalanx.kill(gate)
    return Shared(members=size, explained=explained, starts=starts // size)


def _check(gang: Any, size: int) -> None:
    ranks = phalanx.get(list(gang), timeout=_PATIENCE_S)
    if ranks != list(range(size)):
        raise RuntimeError(f"a gang of {size} returned the ranks {ranks}")
