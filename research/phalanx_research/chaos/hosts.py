"""Simulated machines, each with its own clock and files."""

from __future__ import annotations

from collections.abc import Callable

from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.virtual_time import Action

_READS_S = 0.001


class Host:
    """One machine. Its clock may be ahead or behind, and may run fast or slow. The machine may be
    stopped for a while.
    """

    def __init__(self, kernel: Kernel, name: str, *, ahead_s: float = 0.0, rate: float = 1.0):
        self.kernel = kernel
        self.name = name
        self.is_up = True
        self.can_dial = True
        """Whether processes of this machine can open further descriptors."""
        self.slowness = 1.0
        """The factor by which messages and work take longer than on a normal machine."""
        self.files: dict[str, bytes] = {}
        """The contents of large objects and of pulled copies in memory, by name."""
        self.disk: dict[str, bytes] = {}
        """The contents of spilled objects, by name."""
        self.jumped_s = 0.0
        """Seconds by which the machine's wall-clock time is ahead of the right time; below 0:
        behind.
        """
        self._ahead_s = ahead_s
        self._rate = rate
        self._frozen_until = 0.0
        self._ticks_first = False
        self._stopped: dict[object, float] = {}
        """The time until which processes of this machine are stopped, by process."""

    def clock(self) -> float:
        """Return this machine's clock, in seconds."""
        return self._ahead_s + self.kernel.now * self._rate

    def wall(self) -> float:
        """Return this machine's wall-clock time."""
        return self.clock() + self.jumped_s

    def later(self, delay_s: float, action: Action, process: object = None) -> None:
        """Run an action on this machine after this delay, if the machine is then up. `process` is
        as in `do`.
        """
        self.kernel.after(delay_s, lambda: self.do(action, process))

    def content(self, name: str) -> bytes | None:
        """Return the content of an object's file in memory or on disk; None if there is no file."""
        found = self.files.get(name)
        return self.disk.get(name) if found is None else found

    def do(self, action: Action, process: object = None) -> None:
        """Run an action now or, if the machine or `process` is stopped, when it continues. If the
        machine is down, the action is never run.
        """
        if not self.is_up:
            return
        until, ticks_first = self._moves_at(process)
        if self.kernel.now < until:
            reads_at = until + (_READS_S if ticks_first else 0.0)
            self.kernel.at(reads_at, lambda: self.do(action, process))
            return
        action()

    def _moves_at(self, process: object) -> tuple[float, bool]:
        """Return the time at which this process continues, and whether its timers are then handled
        before messages.
        """
        stopped_until = self._stopped.get(process, 0.0)
        if stopped_until > self._frozen_until:
            return stopped_until, True
        return self._frozen_until, self._ticks_first

    def guard(self, action: Callable[[], object]) -> None:
        """Run a step of a process on this machine. Raises Broken if the step raises an error."""
        try:
            action()
        except Broken:
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise Broken(f"a machine on {self.name} raised {what}", [self.name]) from error

    def freeze(self, seconds: float, ticks_first: bool = False) -> None:
        """Stop the machine for this time, while messages wait. `ticks_first`: when the machine
        continues, its timers are handled before messages, as after an interrupted wait.
        """
        self._frozen_until = max(self._frozen_until, self.kernel.now + seconds)
        self._ticks_first = ticks_first

    def stop(self, process: object, seconds: float) -> None:
        """Stop one process for this time. When it continues, its timers are handled first."""
        self._stopped[process] = max(self._stopped.get(process, 0.0), self.kernel.now + seconds)

    def timer(self, delay_s: float, action: Action, process: object = None) -> None:
        """Run an action after this delay, if the machine is then up. `process` is as in `do`. A
        machine that continues normally handles messages first, like a loop over sockets; `freeze`
        and `stop` can change that.
        """

        def due() -> None:
            until, ticks_first = self._moves_at(process)
            if self.kernel.now < until:
                self.kernel.at(until + (0.0 if ticks_first else _READS_S), due)
            else:
                self.do(action, process)

        self.kernel.after(delay_s, due)

    def every(self, period_s: float, action: Action, process: object = None) -> None:
        """Repeat an action as long as the machine is up. `process` is as in `do`."""

        def again() -> None:
            self.timer(period_s, again, process)
            action()

        self.timer(period_s, again, process)


def raise_defect(error: Exception) -> None:
    """Raise an internal error, so that the simulation finds it. Production code would catch the
    error and go on.
    """
    raise error
