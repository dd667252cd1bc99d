"""The Ray actor that hosts the scheduler: questions of programs, words of Runners."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

from phalanx.engines.ray.scheduler.brain import Brain
from phalanx.engines.ray.scheduler.options import SchedulerOptions


class SchedulerActor:
    """Passes everything to the brain's thread, and awaits what it says."""

    def __init__(self, options: bytes) -> None:
        self._brain = Brain(msgspec.msgpack.decode(options, type=SchedulerOptions))
        self._brain.start()

    async def ask(self, origin: bytes, kind: int, body: bytes) -> bytes:
        """The Reply, in msgpack, to a request of process `origin`: its kind and its fields."""
        reply = await self._await(lambda replied: self._brain.ask(origin, kind, body, replied))
        return msgspec.msgpack.encode(reply)

    async def told(self, prefix: bytes, body: bytes, runner: Any = None) -> tuple[int, bool]:
        """Messages of a node's Runner: the scheduler's epoch, and whether the node has joined it.

        `runner`: the handle by which it is told things; given when it joins.
        """
        taken_in: tuple[int, bool] = await self._await(
            lambda answered: self._brain.told(prefix, body, runner, answered)
        )
        return taken_in

    async def pid(self) -> int:
        """Of the scheduler's process, once it answers questions."""
        pid: int = await self._await(
            lambda answered: self._brain.call(lambda: answered(os.getpid()))
        )
        return pid

    async def _await(self, begin: Any) -> Any:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def answered(value: Any) -> None:
            loop.call_soon_threadsafe(_set, future, value)

        begin(answered)
        return await future


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
