"""The time as the shell gives it to a head, and steps of the time of day."""

from __future__ import annotations

from typing import Protocol

import msgspec

from phalanx.manifests.times import length_text


class Clock(Protocol):
    """Two clocks: one for waiting, and the time of day for records that people read."""

    def now(self) -> float:
        """Seconds of the own time of the process (see `model.own_time`), which never goes back."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...


STEP_S = 1.0
"""A time of day that differs by this from what has really gone by was stepped, and not slewed."""
_SLOW_READ_S = 0.1
"""Two clocks that are read so long apart are not compared: the process stood still between them."""
_READINGS = 3
"""So often they are read then, before the answer is that nothing is known of a step."""


class ClockAnchor(msgspec.Struct, frozen=True):
    """How the two clocks of a machine stood to each other, for the next head on that machine."""

    boot: str
    """The machine's boot: the clock that never goes back begins anew with each."""
    offset_s: float
    """The time of day less the other clock."""


class WatchedClock:
    """A clock whose time of day goes on evenly until somebody takes a step of the machine's in.

    All moments that a head has noted are in one frame, then, and it moves them all at once: see
    `Head.on_tick`. A machine that slept has a step ahead, too.
    """

    def __init__(self, clock: Clock, boot: str = "", before: ClockAnchor | None = None) -> None:
        """`boot` names the machine's boot, "" where nobody knows it. `before`: what an earlier head
        left; one of the same boot tells of a step that came while there was no head."""
        self._clock = clock
        self._boot = boot
        self.now = clock.now
        if before is not None and boot and before.boot == boot:
            self._offset_s = before.offset_s
        else:
            self._offset_s = clock.wall() - clock.now()

    def wall(self) -> float:
        """See Clock."""
        return self._look()[0]

    def take_step(self) -> float:
        """By how many seconds the time of day was stepped since the last call; from now on `wall`
        shows the machine's. 0.0: it was not."""
        _, step_s = self._look()
        if step_s:
            self._offset_s += step_s
        return step_s

    def anchor(self) -> ClockAnchor:
        """For the next head."""
        return ClockAnchor(self._boot, self._offset_s)

    def _look(self) -> tuple[float, float]:
        """The even time of day, and by how much the machine's is ahead of it."""
        for _ in range(_READINGS):
            now = self.now()
            wall = self._clock.wall()
            if abs(wall - now - self._offset_s) < STEP_S:
                self._offset_s = wall - now
                return wall, 0.0
            if self.now() - now < _SLOW_READ_S:
                even = now + self._offset_s
                return even, wall - even
        return self.now() + self._offset_s, 0.0


def step_text(step_s: float) -> str:
    """A step of the time of day, for people."""
    where = "ahead" if step_s > 0 else "back"
    return (
        f"the time of day of the head's machine went {where} by {length_text(round(abs(step_s)))}"
    )
