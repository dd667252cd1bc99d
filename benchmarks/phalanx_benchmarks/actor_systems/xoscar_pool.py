"""An actor of Xoscar, in the second process of a pool."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import xoscar


class _Actor(xoscar.Actor):  # type: ignore[misc]
    def small_value(self) -> bytes:
        return b"ok"


class _Xoscar:
    def __init__(self) -> None:
        # the pool's process imports this module to get the class
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
        self._runner = asyncio.Runner()
        self._runner.run(self._start())

    async def _start(self) -> None:
        self._pool = await xoscar.create_actor_pool("127.0.0.1", n_process=1)
        self._actor = await xoscar.create_actor(
            _Actor,
            address=self._pool.external_address,
            allocate_strategy=xoscar.allocate_strategy.ProcessIndex(1),
        )

    def one_by_one(self, count: int) -> int:
        async def call() -> int:
            for _ in range(count):
                await self._actor.small_value()
            return count

        return self._runner.run(call())

    def together(self, count: int) -> int:
        async def call() -> int:
            calls = (self._actor.small_value() for _ in range(count))
            return len(await asyncio.gather(*calls))

        return self._runner.run(call())

    def close(self) -> None:
        self._runner.run(self._pool.stop())
        self._runner.close()


def make() -> _Xoscar:
    """Start a new pool with an actor."""
    return _Xoscar()
