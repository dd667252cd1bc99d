"""The clocks that the shell gives to a head, and steps of the wall clock."""

from __future__ import annotations

from typing import Protocol

import msgspec

from phalanx.model.readable import length_text


class Clock(Protocol):
    """Two clocks: a steady one for waits, and the wall-clock time for records that people read."""

    def now(self) -> float:
        """Return the seconds of the process's own time (see `model.own_time`), which never goes
        backwards.
        """
        ...

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...


class MachineClock(Clock, Protocol):
    """The clock that the shell gives to a head."""

    def monotonic(self) -> float:
        """Return seconds of the machine's monotonic clock. Unlike `now`, this clock keeps running
        while the process is paused. With this clock, a pause does not look like a step of the
        wall-clock time.
        """
        ...


STEP_S = 1.0
"""The smallest deviation of the wall-clock time from elapsed time, in seconds, that counts as a
step. Smaller deviations count as slewing.
"""
_SLOW_READ_S = 0.1
"""If reading both clocks takes at least this number of seconds, the readings are not compared,
because the process was probably paused between them.
"""
_READINGS = 3
"""How often both clocks are read until a reading is not interrupted by a pause. If every reading is
interrupted, no step is assumed.
"""


class ClockAnchor(msgspec.Struct, frozen=True):
    """The relation between two clocks of a machine, saved for the next head on that machine."""

    boot: str
    """The id of the machine's boot. The monotonic clock restarts with each boot."""
    offset_s: float
    """The wall-clock time minus the monotonic clock, in seconds."""


class WatchedClock:
    """A clock whose wall-clock time runs evenly until its user accepts a step of the machine's
    clock (`take_step`). So all times that a head has recorded stay consistent, and the head shifts
    all of them in one step (`Head.on_tick`). A machine's sleep looks like a step forward.
    """

    def __init__(
        self, clock: MachineClock, boot: str = "", before: ClockAnchor | None = None
    ) -> None:
        """`boot`: the id of the machine's present boot; "" if unknown. `before`: the anchor of an
        earlier head. If the boot is still the same, the anchor shows whether the clock was stepped
        while no head ran.
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
        """Return seconds since the epoch, without steps that `take_step` has not yet returned."""
        return self._look()[0]

    def take_step(self) -> float:
        """Return by how many seconds the clock was stepped since the last call, or 0.0. From now on
        `wall` shows the machine's wall-clock time.
        """
        _, step_s = self._look()
        if step_s:
            self._offset_s += step_s
        return step_s

    def anchor(self) -> ClockAnchor:
        """Return the anchor for the next head."""
        return ClockAnchor(self._boot, self._offset_s)

    def _look(self) -> tuple[float, float]:
        """Return two values: the wall-clock time without pending steps, and the seconds by which
        the machine's wall clock is ahead of that time.
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
    """Return a sentence that describes a step of the clock."""
    where = "ahead" if step_s > 0 else "back"
    return f"the clock of the head's machine went {where} by {length_text(round(abs(step_s)))}"
