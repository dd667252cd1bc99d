"""A loop for one thread. It reads from descriptors, runs functions for other threads, and ticks."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

from phalanx.runtime.os.adaptive_spin import AdaptiveSpin
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.system import log_defect, say

TICK_S = 0.05


class Loop:
    """A loop that does one thing at a time.

    `on_tick` is called every 50 ms with the process's own time. `on_round` is called after
    everything that had arrived was handled, at the end of each turn of the loop. An exception is an
    internal error: it is logged, and the loop continues.
    """

    def __init__(self, on_tick: Callable[[float], None], on_round: Callable[[], None]) -> None:
        self._on_tick = on_tick
        self._on_round = on_round
        self._epoll = select.epoll()
        self._spin = AdaptiveSpin()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.read_from(self._bell, self._silence)
        self.is_stopping = False
        """Whether the loop ends after the current round."""
        self._lag_s = 0.0
        self.wake_at = float("inf")
        """The next round begins at this time at the latest, by the process's own time."""

    # ---- descriptors -------------------------------------------------------------------------

    def register(self, fd: int, ready: Callable[[int], None]) -> None:
        """Call `ready` with epoll's mask whenever something can be read from a descriptor."""
        self._ready[fd] = ready
        self._epoll.register(fd, select.EPOLLIN)

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever a descriptor has something to read, or has ended."""
        self.register(fd, lambda mask: reader())

    def want_writable(self, fd: int, wanted: bool) -> None:
        """Set whether the reader is also called when the descriptor can be written to."""
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        with contextlib.suppress(OSError, ValueError):
            self._epoll.modify(fd, mask)

    def renew(self, fd: int) -> None:
        """Register a descriptor again, because its number now belongs to another file."""
        with contextlib.suppress(FileExistsError):
            self._epoll.register(fd, select.EPOLLIN)

    def unregister(self, fd: int) -> bool:
        """Stop watching a descriptor. Returns False if it was not watched."""
        if self._ready.pop(fd, None) is None:
            return False
        with contextlib.suppress(OSError, ValueError):
            self._epoll.unregister(fd)
        return True

    # ---- other threads -----------------------------------------------------------------------

    def call(self, action: Callable[[], None]) -> None:
        """Run a function in the loop's thread. Any thread may call this."""
        self._inbox.append(action)
        os.eventfd_write(self._bell, 1)

    def _silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    # ---- delays ------------------------------------------------------------------------------

    def take_lag(self) -> float:
        """Return the longest delay of a tick since the last call, in seconds."""
        lag_s, self._lag_s = self._lag_s, 0.0
        return lag_s

    # ---- running -----------------------------------------------------------------------------

    def start_thread(self, name: str, begin: Callable[[], None]) -> None:
        """Start a new thread, which runs `begin` and then the loop."""
        self.call(begin)
        threading.Thread(target=self.serve, name=name, daemon=True).start()

    def serve(self) -> None:
        """Run until `is_stopping`."""
        last_tick, last_real, paused_s = own_time(), time.monotonic(), own_time.paused_s
        while not self.is_stopping:
            wait_s = min(TICK_S, max(self.wake_at - own_time(), 0.0))
            events = self._spin.poll(self._epoll.poll, wait_s)
            for fd, mask, ready in [(fd, mask, self._ready.get(fd)) for fd, mask in events]:
                # An earlier event may have closed this descriptor, and its number may belong to
                # another one now.
                if ready is not None and self._ready.get(fd) is ready:
                    try:
                        ready(mask)
                    except Exception as error:
                        log_defect(error)
            for _ in range(len(self._inbox)):
                self._step(self._inbox.popleft())
            now = own_time()
            if now - last_tick >= TICK_S:
                real = time.monotonic()
                self._lag_s = max(self._lag_s, real - last_real - TICK_S)
                if own_time.paused_s > paused_s:
                    say(f"this process did not run for {own_time.paused_s - paused_s:.1f} s")
                    paused_s = own_time.paused_s
                last_tick, last_real = now, real
                self._step(self._on_tick, now)
            self._step(self._on_round)

    def _step(self, step: Callable[..., None], *args: float) -> None:
        try:
            step(*args)
        except Exception as error:
            log_defect(error)
