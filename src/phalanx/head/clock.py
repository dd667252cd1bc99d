"""The time as the shell gives it to a head, and steps of the clock."""

from __future__ import annotations

from typing import Protocol

import msgspec

from phalanx.model.readable import length_text


class Clock(Protocol):
    """Two clocks: one for waiting, and the wall-clock time for records that people read."""

    def now(self) -> float:
        """Return seconds of the process's own time (see `model.own_time`), which never goes
        back.
        """
        ...

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...


class MachineClock(Clock, Protocol):
    """The clock that the shell gives to a head."""

    def monotonic(self) -> float:
        """Return seconds of the machine's clock that never goes back.

        This clock goes on while the process is paused, whereas `now` leaves the pause out. So a
        pause does not look like a step.
        """
        ...


STEP_S = 1.0
"""The smallest difference from elapsed time, in seconds, with which a change of the wall-clock time
counts as a step and not as slewing.
"""
_SLOW_READ_S = 0.1
"""Seconds between two readings from which the clocks are not compared, because the process stood
still in between.
"""
_READINGS = 3
"""How many times the clocks are read in that case, before the answer is that no step is known."""


class ClockAnchor(msgspec.Struct, frozen=True):
    """The relation between two clocks of a machine, for the next head on that machine."""

    boot: str
    """The machine's boot. The clock that never goes back starts again with each boot."""
    offset_s: float
    """The wall-clock time minus the monotonic clock, in seconds."""


class WatchedClock:
    """A clock whose wall-clock time goes on evenly until a caller takes in a step of the machine's
    clock.

    So all moments that a head has noted fit together, and the head moves all of them at once: see
    `Head.on_tick`. A machine that slept also has a step ahead.
    """

    def __init__(
        self, clock: MachineClock, boot: str = "", before: ClockAnchor | None = None
    ) -> None:
        """`boot` names the machine's boot, or is "" if unknown. `before`: the anchor of an earlier
        head. If the boot is the same, the anchor shows a step that came while no head ran.
        """
        self._clock = clock
        self._boot = boot
        self.now = clock.now
        self.monotonic = clock.monotonic
        if before is not None and boot and before.boot == boot:
            self._offset_s = before.offset_s
        else:
            self._offset_s = clock.wall() - clock.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch, without steps that were not taken in yet."""
        return self._look()[0]

    def take_step(self) -> float:
        """Return by how many seconds the clock was stepped since the last call; 0.0 if it was not.
        From now on `wall` shows the machine's wall-clock time.
        """
        _, step_s = self._look()
        if step_s:
            self._offset_s += step_s
        return step_s

    def anchor(self) -> ClockAnchor:
        """Return the anchor for the next head."""
        return ClockAnchor(self._boot, self._offset_s)

    def _look(self) -> tuple[float, float]:
        """Return the even wall-clock time, and by how many seconds the machine's wall-clock time is
        ahead of it.
        """
        for _ in range(_READINGS):
            seen = self.monotonic()
            wall = self._clock.wall()
            if abs(wall - seen - self._offset_s) < STEP_S:
                self._offset_s = wall - seen
                return wall, 0.0
            if self.monotonic() - seen < _SLOW_READ_S:
                even = seen + self._offset_s
                return even, wall - even
        return self.monotonic() + self._offset_s, 0.0


def step_text(step_s: float) -> str:
    """Return a sentence about a step of the clock."""
    where = "ahead" if step_s > 0 else "back"
    return f"the clock of the head's machine went {where} by {length_text(round(abs(step_s)))}"
