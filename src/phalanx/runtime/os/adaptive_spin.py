"""Lets a thread look for events repeatedly for a moment before it sleeps, if events will probably
come in that moment.

If two processes answer each other in turn, sleeping and waking up cost more than the work itself: a
round trip takes 50 µs, but 5 µs between two processes that keep looking. The cost is the kernel's
switches and, on a virtual machine, the call from one processor to another. Looking for about as
long as a wake-up takes is never more than twice as expensive as the best choice would have been
(Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a shared-memory
multiprocessor", 1991). Here it costs much less: after a long wait, or after looking in vain, the
thread sleeps in the next waits without looking first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SPIN_S = 80e-6
"""Seconds for which a thread looks for events before it sleeps."""
SHORT_S = 2 * SPIN_S
"""A wait counts as short if it takes less than this time in seconds, including the time to wake up.
After a short wait, the thread looks for events again before it sleeps.
"""
MOST_SKIPPED = 256


class AdaptiveSpin:
    """Decides for each wait whether to look before sleeping. Several threads may use it, one after
    another.
    """

    def __init__(
        self, processors: int | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`processors`: how many processors this process may use; by default, the number that the
        kernel reports.

        Looking helps only if there is another processor. `clock` returns seconds.
        """
        if processors is None:
            processors = len(os.sched_getaffinity(0))
        self._is_able = processors > 1
        self._clock = clock
        self._was_short = False
        self._penalty = 0
        """How many waits will sleep without looking first after the thread has looked in vain
        again.
        """
        self._skip = 0
        """How many short waits must still pass before a thread looks again before it sleeps."""

    def poll(self, look: Callable[[float], list[T]], timeout_s: float) -> list[T]:
        """Wait for events, and return what `look` finds. If events will probably come soon, call
        `look(0)` repeatedly for SPIN_S before `look(timeout_s)`, which sleeps.

        `look` works like epoll's `poll`: it sleeps for at most its argument in seconds (negative:
        forever), and returns an empty list if nothing came.
        """
        if 0 <= timeout_s <= SPIN_S:
            return look(timeout_s)
        clock = self._clock
        began = clock()
        if self._was_short and not self._skip:
            end = began + SPIN_S
            while clock() < end:
                if found := look(0):
                    self._penalty >>= 1
                    return found
            self._penalty = min(2 * self._penalty + 1, MOST_SKIPPED)
            self._skip = self._penalty
        found = look(timeout_s)
        self._was_short = self._is_able and clock() - began < SHORT_S
        if self._was_short and self._skip:
            self._skip -= 1
        return found
