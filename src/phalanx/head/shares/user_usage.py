"""The exact usage of one user at any time."""

from __future__ import annotations

from typing import NamedTuple

from phalanx.scheduler.plugin_parts.billing import Terms
from phalanx.scheduler.plugin_parts.past_use import Use, accrued

Key = tuple[bytes, int]
"""A member, as (group of its gang, index in the gang)."""


class Running(NamedTuple):
    """Work that is charged: `rate` billing units per second since `began` (seconds since the
    epoch).
    """

    began: float
    rate: float


class UserUsage:
    """The usage of a user in a queue.

    The rate of all running work is integrated over time, so the usage is exact no matter how often
    it is read. Work that has run for less than `terms.penalty_s` seconds is charged for
    `terms.penalty_s` seconds.
    """

    __slots__ = (
        "_began",
        "_recent",
        "_recent_rate",
        "at",
        "kept_at",
        "rate",
        "running",
        "shares",
        "use",
    )

    def __init__(self, use: float = 0.0, at: float = 0.0, shares: float | None = None) -> None:
        self.use = use
        self.at = self.kept_at = at
        self.shares = shares
        self.rate = 0.0
        self.running: dict[Key, Running] = {}
        self._recent: dict[Key, Running] = {}
        """The running work that began last, oldest first."""
        self._recent_rate = self._began = 0.0
        """Two sums over the work in `_recent`: the rates, and each rate times the start of its
        work.
        """

    def begin(self, key: Key, running: Running, now: float, terms: Terms) -> None:
        """Charge for work from its start or, if an earlier head charged for it, from the time of
        the stored row.
        """
        self._advance(now, terms)
        since = max(running.began, self.kept_at)
        self.use += accrued(running.rate, now - since, terms.half_life_s)
        self.rate += running.rate
        self.running[key] = self._recent[key] = running
        self._recent_rate += running.rate
        self._began += running.rate * running.began

    def end(self, key: Key, now: float, terms: Terms) -> None:
        """Stop charging for work."""
        self._advance(now, terms)
        self.rate -= self.running.pop(key).rate
        if key in self._recent:
            self._drop(key)
        if not self.running:
            self.rate = 0.0  # this drops rounding errors

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds, so that
        durations stay the same.
        """
        self.at += step_s
        self.kept_at += step_s
        self.running = {
            key: Running(one.began + step_s, one.rate) for key, one in self.running.items()
        }
        self._recent = {key: self.running[key] for key in self._recent}
        self._began += self._recent_rate * step_s

    def used(self, now: float, terms: Terms) -> float:
        """Return the usage up to `now` in billing units times seconds, with the penalty for work
        that has just begun.
        """
        left = Use(self.use, self.at).left(now, terms.half_life_s)
        since = accrued(self.rate, now - self.at, terms.half_life_s)
        return left + since + self._penalty(now, terms)

    def _penalty(self, now: float, terms: Terms) -> float:
        """Return the charge of recent work for time that the work has not run yet."""
        while self._recent:
            key = next(iter(self._recent))
            if self._recent[key].began + terms.penalty_s > now:
                break
            self._drop(key)
        most = self._recent_rate * terms.penalty_s
        return min(max(self._began + most - self._recent_rate * now, 0.0), most)

    def _drop(self, key: Key) -> None:
        running = self._recent.pop(key)
        self._recent_rate -= running.rate
        self._began -= running.rate * running.began
        if not self._recent:
            self._recent_rate = self._began = 0.0

    def _advance(self, now: float, terms: Terms) -> None:
        if now > self.at:
            kept = Use(self.use, self.at).left(now, terms.half_life_s)
            self.use = kept + accrued(self.rate, now - self.at, terms.half_life_s)
            self.at = now
