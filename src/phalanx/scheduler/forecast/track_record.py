"""How well it held what was told of starts, and two times that hold what they promise.

Past runs say how long what runs will take; nothing says who will come, or go first. So the two
times of a start are too narrow by themselves. What was told is kept until the start, and how far
that lay outside, in parts of how long it was to take, widens what is told later (conformalized
quantile regression, Romano, Patterson and Candes, 2019: with n past starts the margin is the
ceil((n + 1) x 0.9)th smallest, so that nine in ten of those to come are within it, whatever the
distribution, as long as they are like those before).
"""

from __future__ import annotations

import math
from typing import NamedTuple

PART = 0.9
"""Of starts to come that each of the two times is to hold for."""
KEPT = 256
"""So many starts are remembered, the last ones."""
ENOUGH = 9
"""With fewer the margin would be above all of them."""
TOLD = 10_000
"""Of so many that wait it is remembered what was told first."""
SHORTEST_S = 10.0
"""A wait that was to be shorter is taken for so long: its parts mean nothing."""


class Told(NamedTuple):
    """When it was said, and the two times that run times alone gave."""

    now: float
    earliest_s: float
    at_s: float


class TrackRecord:
    """What was told of those that wait, and how it turned out for those that started."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}
        self._early: list[float] = []
        self._late: list[float] = []
        self._margins: tuple[float, float] | None = None
        """Before and after the two times, since the last start."""

    def __len__(self) -> int:
        """So many starts are remembered."""
        return len(self._late)

    def tell(self, uid: str, told: Told) -> tuple[float, float]:
        """The two times to tell of one that waits: what run times alone give, and a margin."""
        if uid not in self._told:
            if len(self._told) >= TOLD:
                del self._told[next(iter(self._told))]
            self._told[uid] = told
        if len(self) < ENOUGH:
            return told.earliest_s, told.at_s
        if self._margins is None:
            self._margins = _margin(self._early), _margin(self._late)
        before, after = self._margins
        wait_s = _wait_s(told)
        return max(told.now, told.earliest_s - before * wait_s), told.at_s + after * wait_s

    def started(self, uid: str, now: float) -> None:
        """One that waited has started."""
        told = self._told.pop(uid, None)
        if told is None:
            return
        wait_s = _wait_s(told)
        for known, outside_s in (
            (self._early, told.earliest_s - now),
            (self._late, now - told.at_s),
        ):
            known.append(outside_s / wait_s)
            del known[:-KEPT]
        self._margins = None

    def clock_stepped(self, step_s: float) -> None:
        """The time of day was stepped by so much: what was told is as far ahead as before."""
        self._told = {
            uid: Told(*(moment + step_s for moment in told)) for uid, told in self._told.items()
        }

    def forget(self, uid: str) -> None:
        """One that waited will not start."""
        self._told.pop(uid, None)


def _wait_s(told: Told) -> float:
    return max(told.at_s - told.now, SHORTEST_S)


def _margin(outside: list[float]) -> float:
    """What nine in ten of those to come do not exceed; never below 0: what run times alone give is
    not narrowed."""
    at = math.ceil((len(outside) + 1) * PART) - 1
    return max(0.0, sorted(outside)[at])
