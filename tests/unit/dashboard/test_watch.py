"""How pages wait for changes that the head reports."""

from __future__ import annotations

import asyncio
import random
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from phalanx.dashboard import watch as watching
from phalanx.dashboard.views import Views
from phalanx.dashboard.watch import Watch
from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.requests.gangs import ShowPlan
from phalanx.protocol.requests.jobs import GetJob
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState

from .world import Head, node

PATIENCE_S = 120.0


@pytest.mark.parametrize("seed", range(3))
def test_viewers_that_go_while_they_wait_hold_up_nobody(seed: int) -> None:
    """Viewers connect at any time. They are notified after they have gone, give up, or are
    cancelled.
    """
    rng = random.Random(seed)
    watch = Watch(Head().ask)
    wrong: list[str] = []

    async def view() -> None:
        try:
            await watch.newer(0, rng.choice((0.001, 0.01, 3_600.0)))
        except RuntimeError as error:
            wrong.append(str(error))

    async def tell_all() -> None:
        async with watch._news:
            watch._news.notify_all()

    async def run() -> None:
        viewers: list[asyncio.Task[None]] = []
        tellers: list[asyncio.Task[None]] = []
        for _ in range(1_000):
            viewers.append(asyncio.create_task(view()))
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                rng.choice(viewers).cancel()
            if rng.random() < 0.2:
                tellers.append(asyncio.create_task(tell_all()))
        for viewer in viewers:
            viewer.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*viewers, *tellers, return_exceptions=True)

    asyncio.run(run())
    assert wrong == []


TASKS = QueryState(StateQuery("tasks"))


@pytest.mark.parametrize(
    ("first", "pause_s", "second", "is_asked"),
    [
        (TASKS, 9.0, TASKS, False),  # its own pause
        (TASKS, 10.5, TASKS, True),  # at most ten seconds
        (TASKS, 0.0, ShowPlan(), True),
        (ShowPlan(), 0.0, TASKS, True),
        (ShowPlan(), 119.0, ShowPlan(), False),
        (ShowPlan(), 120.5, ShowPlan(), True),
        (ShowPlan(), 119.0, GetJob("default/runs"), False),  # both take the head's time
    ],
)
def test_a_question_that_nodes_answer_delays_no_other_question(
    first: Request[Any],
    pause_s: float,
    second: Request[Any],
    is_asked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page has old answers to both requests. Then the head takes three seconds to answer
    `first`, and `second` follows.
    """
    now = 0.0
    asked: list[Request[Any]] = []
    head = Head()

    def ask(request: Request[Any]) -> Any:
        nonlocal now
        asked.append(request)
        now += 3.0 if len(asked) == 3 else 0.0
        return head.ask(request)

    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now))
    watch = Watch(ask)

    async def run() -> None:
        nonlocal now
        await watch.shared(first, 1)
        await watch.shared(second, 1)
        asked[:] = [first, second]
        await watch.shared(first, 2)
        assert asked[2:] == [first]
        now += pause_s - 3.0
        await watch.shared(second, 3)

    asyncio.run(run())
    assert (asked[3:] == [second]) == is_asked


def test_processes_that_gave_no_answer_are_named_with_the_names_of_their_nodes() -> None:
    head = Head()
    here, other = node(1, hostname="gpu-1").node_id, "ab" * 28
    rows = [node(1, hostname="gpu-1")]
    status = msgspec.structs.replace(head.snapshot.status, nodes=rows)
    head.snapshot = msgspec.structs.replace(head.snapshot, status=status)
    silent = [
        f"worker 41 of node {here}",
        f"driver 7 of node {other}",
        f"node {here} (gpu-1): it is away",
    ]

    def ask(request: Request[Any]) -> Any:
        answer = head.ask(request)
        if isinstance(request, QueryState):
            return StateAnswer(answer.part, silent)
        return answer

    async def run() -> list[str]:
        watch = Watch(ask)
        await watch._look()
        assert watch.snapshot is not None
        view = await Views(watch).build("/objects", {}, watch.snapshot)
        return list(view.page.silent)

    assert asyncio.run(run()) == [
        f"driver 7 of node {other}", "node gpu-1: it is away", "worker 41 of node gpu-1",
    ]  # fmt: skip


def test_viewers_ask_a_shared_question_once_and_it_outlives_the_one_that_gives_up() -> None:
    asked: list[Request[Any]] = []
    may_answer = threading.Event()
    head = Head()

    def ask(request: Request[Any]) -> Any:
        asked.append(request)
        may_answer.wait(PATIENCE_S)
        return head.ask(request)

    async def run() -> None:
        watch = Watch(ask)
        viewers = [asyncio.create_task(watch.shared(ShowPlan(), n)) for n in range(20)]
        await asyncio.sleep(0)
        viewers[0].cancel()
        may_answer.set()
        found = await asyncio.gather(*viewers, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert all(one is found[1] for one in found[2:])

    asyncio.run(run())
    assert asked == [ShowPlan()]
