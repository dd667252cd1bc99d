"""A page's wait for news of the head."""

from __future__ import annotations

import asyncio
import random

import pytest

from phalanx.dashboard.watch import Watch

from .world import Head

PATIENCE_S = 120.0


@pytest.mark.parametrize("seed", range(3))
def test_viewers_that_go_while_they_wait_hold_up_nobody(seed: int) -> None:
    """They come, are told in vain, give up, and are cancelled at any moment."""
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
