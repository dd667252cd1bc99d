"""Time as a process lives it: a clock that stands still while the process does not run.

A process that is stopped, whose machine is suspended, or that a disk holds up, hears nothing
meanwhile. When it goes on, all deadlines that it has set for others have passed, and what they sent
in time still waits in its sockets. By this clock nobody is late for that.
"""

from __future__ import annotations

from collections.abc import Callable

PAUSE_S = 1.5
"""A process whose loop looks at the clock at least each second did not run, where it has not looked
for so long."""
COUNTED_S = 0.05
"""So much of a pause counts: what may have passed before it began."""


class OwnTime:
    """Seconds on a clock that never goes back, and that leaves out pauses.

    From any thread, without a lock: whoever looks computes what follows from one state, and two
    that look at once find the same.
    """

    def __init__(self, clock: Callable[[], float], pause_s: float = PAUSE_S) -> None:
        """`clock`: seconds that also pass during a pause. Whoever uses this looks at it more often
        than each `pause_s`."""
        self._clock = clock
        self._pause_s = pause_s
        self._state = (clock(), 0.0)
        """When this was last looked at, by `clock`, and how long the pauses before that were."""

    def __call__(self) -> float:
        """The time now."""
        now = self._clock()
        seen, paused_s = self._state
        passed_s = now - seen
        if passed_s > self._pause_s:
            paused_s += passed_s - COUNTED_S
        self._state = (now, paused_s)
        return now - paused_s

    @property
    def paused_s(self) -> float:
        """How long all pauses together were."""
        return self._state[1]
