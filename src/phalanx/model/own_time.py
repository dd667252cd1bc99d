"""A process's own time: a clock that stands still while the process does not run.

A process reads no messages while it is stopped, its machine is suspended, or it waits for a disk.
When the process continues, all deadlines that it set for other processes have passed, although
their messages came in time and wait in its sockets. By this clock, no such message is late.
"""

from __future__ import annotations

from collections.abc import Callable

PAUSE_S = 1.5
"""If more than this many seconds pass between two calls of the clock, the process counts as paused.
A running process's loop calls the clock at least once a second.
"""
COUNTED_S = 0.05
"""Seconds of each pause that still count, because they may have passed before the pause began."""


class OwnTime:
    """A clock in seconds that never goes back, and that leaves out pauses.

    Any thread may call it without a lock: each call computes its result from one immutable state,
    and two calls at the same time compute the same next state.
    """

    def __init__(self, clock: Callable[[], float], pause_s: float = PAUSE_S) -> None:
        """Set up the clock. `clock` returns seconds that also pass during a pause. The object must
        be called more often than every `pause_s` seconds.
        """
        self._clock = clock
        self._pause_s = pause_s
        self._state = (clock(), 0.0)
        """The time that `clock` returned at the last call, and the seconds of all pauses until
        then.
        """

    def __call__(self) -> float:
        """Return the present time in seconds."""
        now = self._clock()
        seen, paused_s = self._state
        passed_s = now - seen
        if passed_s > self._pause_s:
            paused_s += passed_s - COUNTED_S
        self._state = (now, paused_s)
        return now - paused_s

    @property
    def paused_s(self) -> float:
        """The seconds of all pauses so far, added up."""
        return self._state[1]
