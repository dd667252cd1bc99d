"""The Ray actor that hosts the scheduler: it receives the requests of programs and the messages of
node agents.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

import msgspec
from ray.actor import ActorHandle

from phalanx.adapters.ray.scheduler.options import SchedulerOptions
from phalanx.adapters.ray.scheduler.scheduler_thread import SchedulerThread
from phalanx.protocol.asking import Reply

T = TypeVar("T")


class SchedulerActor:
    """The scheduler's actor. It passes all messages to the scheduler's thread, and awaits the
    answers.
    """

    def __init__(self, options: bytes) -> None:
        self._scheduler = SchedulerThread(msgspec.msgpack.decode(options, type=SchedulerOptions))
        self._scheduler.start()

    async def ask(self, origin: bytes, kind: int, body: bytes) -> bytes:
        """Answer a request of process `origin`. `kind` is the request's kind, and `body` has its
        fields.

        Returns the Reply in msgpack.
        """
        scheduler = self._scheduler
        reply = await _answer_of(
            lambda replied: scheduler.ask(origin, kind, body, replied), returns=Reply
        )
        return msgspec.msgpack.encode(reply)

    async def from_node(self, prefix: bytes, body: bytes, agent: ActorHandle | None) -> bool:
        """Handle messages of a node's agent. Returns whether the node has joined this scheduler.
        `agent`: the agent's handle, which is only given when the node joins.
        """
        scheduler = self._scheduler
        return await _answer_of(
            lambda taken_in: scheduler.from_node(prefix, body, agent, taken_in), returns=bool
        )

    async def pid(self) -> int:
        """Wait until the scheduler answers requests, and return its process id."""
        scheduler = self._scheduler
        return await _answer_of(
            lambda answered: scheduler.call(lambda: answered(os.getpid())), returns=int
        )


async def _answer_of(begin: Callable[[Callable[[T], None]], None], returns: type[T]) -> T:
    """Call `begin` with a callback, and return the value with which another thread later calls that
    callback.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T) -> None:
        if not future.done():
            future.set_result(value)

    def answered(value: T) -> None:
        loop.call_soon_threadsafe(settle, value)

    begin(answered)
    return await future
