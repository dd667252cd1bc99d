"""A thread with an inbox: it does what other threads hand it, ticks, and watches descriptors."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

TICK_S = 0.05


class Loop:
    """Does one thing at a time. `on_tick` and `on_round` are called between."""

    def __init__(self, name: str, on_tick: Callable[[float], None], on_round: Callable[[], None]):
        self._on_tick = on_tick
        self._on_round = on_round
        self._inbox: deque[Callable[[], None]] = deque()
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.read_from(self._bell, self._silence)
        self.wake_at = float("inf")
        """When a round is due at the latest, by the monotonic clock."""
        self.is_stopping = False
        self._name = name

    def start(self, begin: Callable[[], None]) -> None:
        """Run in a thread of its own, which does `begin` first."""
        self.call(begin)
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def call(self, action: Callable[[], None]) -> None:
        """Have something done in the loop's thread; from any thread."""
        self._inbox.append(action)
        os.eventfd_write(self._bell, 1)

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever the descriptor has something to read, or has ended."""
        self._readers[fd] = reader
        self._poll.register(fd, select.POLLIN)

    def _silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def _serve(self) -> None:
        last_tick = time.monotonic()
        while not self.is_stopping:
            wait_s = min(TICK_S, max(self.wake_at - time.monotonic(), 0.0))
            for fd, _ in self._poll.poll(wait_s * 1000):
                self._step(self._readers[fd])
            for _ in range(len(self._inbox)):
                self._step(self._inbox.popleft())
            now = time.monotonic()
            if now - last_tick >= TICK_S:
                last_tick = now
                self._step(self._on_tick, now)
            self._step(self._on_round)

    def _step(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception:
            traceback.print_exc()  # a defect of ours: what else this thread serves goes on
