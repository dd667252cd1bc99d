"""The data of the page History: usage, efficiency and waits of users and queues."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from phalanx.model.attempts import Attempt
from phalanx.observe.accounting.questions import (
    BOTH,
    QUEUE,
    USER,
    AttemptPage,
    AttemptQuery,
    UsageQuery,
    UsageRow,
    together,
)
from phalanx.observe.accounting.sums import HourSum, total_of

DAYS = {"1d": 1, "7d": 7, "30d": 30, "365d": 365}
USUAL = "7d"
SHOWN = 50
ATTEMPTS = 25
_DAY_S = 86_400.0
_HOUR_S = 3_600.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of an address: the period, what a row stands for (user, queue or both), and
    filters for a user and a queue.
    """

    period: str
    by: str
    user: str
    queue: str

    def usage(self, now: float) -> UsageQuery:
        """Return the query for sums over whole hours."""
        since = (now - DAYS[self.period] * _DAY_S) // _HOUR_S * _HOUR_S
        return UsageQuery(since=max(since, 0.0), users=self._users(), queues=self._queues())

    def attempts(self, now: float) -> AttemptQuery:
        """Return the query for the last attempts."""
        since = max(now - DAYS[self.period] * _DAY_S, 0.0) // _HOUR_S * _HOUR_S
        return AttemptQuery(since=since, users=self._users(), queues=self._queues(), limit=ATTEMPTS)

    def _users(self) -> list[str]:
        return [self.user] if self.user else []

    def _queues(self) -> list[str]:
        return [self.queue] if self.queue else []


def asked(words: Mapping[str, str]) -> Asked:
    """Read the parameters of an address. An unknown value counts as not given."""
    period, by = words.get("period", USUAL), words.get("by", BOTH)
    return Asked(
        period=period if period in DAYS else USUAL,
        by=by if by in (USER, QUEUE, BOTH) else BOTH,
        user=words.get("user", "")[:200],
        queue=words.get("queue", "")[:253],
    )


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the jobs of a user, a queue or both. Usage is in hours, fractions are from 0 to 1,
    and waits are in seconds. Unknown values are None.
    """

    user: str
    queue: str
    attempts: int
    completed: float | None
    cpu_h: float
    cpu: float | None
    gpu_h: float
    gpu: float | None
    gpu_idle_h: float | None
    waits_s: list[float | None]


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page: sums, and the attempts that ended last."""

    asked: Asked
    rows: list[Used]
    in_all: int
    total: Used
    attempts: list[Attempt]


def history(asked: Asked, usage: list[UsageRow], last: AttemptPage) -> HistoryPage:
    """Return the page. Rows are sorted by GPU hours, then by CPU hours, the largest first."""
    rows = [_used(row.user, row.queue, row.sum) for row in together(usage, asked.by)]
    rows.sort(key=lambda row: (-row.gpu_h, -row.cpu_h, row.user, row.queue))
    return HistoryPage(
        asked=asked,
        rows=rows[:SHOWN],
        in_all=len(rows),
        total=_used("", "", total_of([row.sum for row in usage])),
        attempts=last.attempts,
    )


def _used(user: str, queue: str, one: HourSum) -> Used:
    return Used(
        user=user,
        queue=queue,
        attempts=one.attempts,
        completed=_part(one.completed, one.attempts),
        cpu_h=one.cpu_s / _HOUR_S,
        cpu=_part(one.cpu_used_s, one.cpu_known_s),
        gpu_h=one.gpu_s / _HOUR_S,
        gpu=_part(one.gpu_used_s, one.gpu_known_s),
        gpu_idle_h=one.gpu_idle_s / _HOUR_S if one.gpu_known_s else None,
        waits_s=[one.wait(part) for part in (0.5, 0.9, 0.99)],
    )


def _part(some: float, of: float) -> float | None:
    return some / of if of else None
