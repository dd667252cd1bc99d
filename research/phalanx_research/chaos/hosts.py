"""Simulated machines: each has a clock of its own, and files."""

from __future__ import annotations

from collections.abc import Callable

from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.kernel import Action, Kernel

_READS_S = 0.001


class Host:
    """One machine. Its clock may be ahead or behind and run fast or slow; it may stand still."""

    def __init__(self, kernel: Kernel, name: str, *, ahead_s: float = 0.0, rate: float = 1.0):
        self.kernel = kernel
        self.name = name
        self.is_up = True
        self.can_dial = True
        """Whether its processes can open another descriptor."""
        self.slowness = 1.0
        """Messages and work take so many times longer."""
        self.files: dict[str, bytes] = {}
        """Contents of large objects, and of copies, that lie in memory; by name."""
        self.disk: dict[str, bytes] = {}
        """The same of those that were spilled."""
        self.jumped_s = 0.0
        """So far its time of day has jumped ahead since it was right."""
        self._ahead_s = ahead_s
        self._rate = rate
        self._frozen_until = 0.0

    def clock(self) -> float:
        """What this machine takes for the time, in seconds."""
        return self._ahead_s + self.kernel.now * self._rate

    def wall(self) -> float:
        """The time of day as this machine has it."""
        return self.clock() + self.jumped_s

    def later(self, delay_s: float, action: Action) -> None:
        """Do this on this machine after so long, unless it is down by then."""
        self.kernel.after(delay_s, lambda: self.do(action))

    def content(self, name: str) -> bytes | None:
        """What is in an object's file, in memory or on disk; None when it is in neither."""
        found = self.files.get(name)
        return self.disk.get(name) if found is None else found

    def do(self, action: Action) -> None:
        """Do this now, or when the machine moves again; never once it is down."""
        if not self.is_up:
            return
        if self.kernel.now < self._frozen_until:
            self.kernel.at(self._frozen_until, lambda: self.do(action))
            return
        action()

    def guard(self, action: Callable[[], object]) -> None:
        """Do a step of a process on this machine. Raises Broken when the step raises anything."""
        try:
            action()
        except Broken:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise Broken(f"a machine on {self.name} raised {what}", [self.name]) from error

    def freeze(self, seconds: float) -> None:
        """Nothing moves here for so long; what comes waits."""
        self._frozen_until = max(self._frozen_until, self.kernel.now + seconds)

    def timer(self, delay_s: float, action: Action) -> None:
        """Do this after so long, if the machine is up by then. A machine that moves again after it
        stood still reads messages first, as a loop over sockets does."""

        def due() -> None:
            if self.kernel.now < self._frozen_until:
                self.kernel.at(self._frozen_until + _READS_S, due)
            else:
                self.do(action)

        self.kernel.after(delay_s, due)

    def every(self, period_s: float, action: Action) -> None:
        """Do this again and again, as long as the machine is up."""

        def again() -> None:
            self.timer(period_s, again)
            action()

        self.timer(period_s, again)


def raise_defect(error: Exception) -> None:
    """A defect that would be tried again is to be found here."""
    raise error
