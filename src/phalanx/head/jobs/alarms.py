"""Alarms for jobs, by the wall-clock time or by a steady clock."""

from __future__ import annotations

import heapq
from typing import NamedTuple


class Alarm(NamedTuple):
    """The time at which a job must be checked."""

    at: float
    job: str


class Alarms:
    """All alarms. Alarms by the steady clock are set again whenever something changes. Only the
    earliest of a job's alarms by this clock is kept, because an alarm that comes too early does no
    harm.
    """

    def __init__(self) -> None:
        self._by_day: list[Alarm] = []
        self._steady: list[Alarm] = []
        self._earliest: dict[str, float] = {}

    def by_day(self, at: float, job: str) -> None:
        """Check a job when the wall-clock time is `at` (seconds since the epoch)."""
        heapq.heappush(self._by_day, Alarm(at, job))

    def steady(self, at: float, job: str) -> None:
        """Check a job when the steady clock shows `at`."""
        if at < self._earliest.get(job, float("inf")):
            self._earliest[job] = at
            heapq.heappush(self._steady, Alarm(at, job))

    def forget_by_day(self) -> None:
        """Drop the alarms by the wall-clock time after a step of that clock. Callers set them
        again.
        """
        self._by_day.clear()

    def due(self, now: float, steady: float) -> str | None:
        """Return a job whose alarm is due, or None. Due alarms by the wall-clock time come
        first.
        """
        for heap, time in ((self._by_day, now), (self._steady, steady)):
            if heap and heap[0].at <= time:
                return heap[0].job
        return None

    def pop(self, now: float, steady: float) -> str:
        """Drop the alarm of the job that `due` returns, and return that job."""
        if self._by_day and self._by_day[0].at <= now:
            return heapq.heappop(self._by_day).job
        assert self._steady[0].at <= steady
        alarm = heapq.heappop(self._steady)
        if self._earliest.get(alarm.job) == alarm.at:
            del self._earliest[alarm.job]
        return alarm.job
