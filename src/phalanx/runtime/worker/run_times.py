"""The times at which a task or call begins and ends. The time between them is right even if the
wall clock is set meanwhile.
"""

from __future__ import annotations

from time import monotonic, time


class Began:
    """The start of a run, on the wall clock and on the clock that never goes backwards.

    A run begins when its object is made. Each call makes one, so the class has slots instead of the
    slower constructor of a named tuple.
    """

    __slots__ = ("steady", "wall")

    def __init__(self) -> None:
        self.wall = time()
        self.steady = monotonic()

    def seconds(self) -> float:
        """Return the seconds that the run has taken so far."""
        return monotonic() - self.steady

    def ended(self) -> float:
        """Return the current wall-clock time, as if the clock had not been set since the run
        began.
        """
        return self.wall + monotonic() - self.steady
