"""Compares the start times that users were shown with the actual starts."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.model.rows.plan import TimePlan

SLACK_S = 60.0
"""Seconds by which a start may be late and still count as on time, because users are shown
minutes.
"""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The first estimate of one job's start, in seconds of the day."""

    said_s: float
    at_s: float
    earliest_s: float | None
    is_learnt: bool
    """Whether the estimate uses past run times, and not only time limits."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The quality of the first estimates for work that has started."""

    count: int
    by_then_pct: float
    """The percentage of work that started by the estimated time."""
    early_p50_s: float
    """The seconds by which at least half of the work started before the estimated time."""
    late_p90_s: float
    """The seconds after the estimated time within which nine tenths of the work had started; 0 if
    it started in time.
    """
    lead_p50_s: float
    """The median number of seconds from the time at which an estimate was made to the estimated
    time.
    """


class Estimates:
    """The first estimate of each job and array task that was waiting at a check."""

    def __init__(self, midnight: float) -> None:
        """`midnight` is the beginning of the day, in seconds since the epoch."""
        self.midnight = midnight
        self.said: dict[str, Said] = {}
        self.started: dict[str, float] = {}
        self.unknown: set[str] = set()
        """Work whose start could not be estimated when it was first seen waiting."""

    def look(self, plan: TimePlan) -> None:
        """Record the estimates in a plan that users see."""
        now_s = plan.now - self.midnight
        for one in plan.starts:
            if one.at_s <= plan.now or one.podgroup in self.said or one.podgroup in self.started:
                continue
            earliest = one.earliest_s
            self.said[one.podgroup] = Said(
                said_s=now_s,
                at_s=one.at_s - self.midnight,
                earliest_s=None if earliest is None else earliest - self.midnight,
                is_learnt=bool(one.basis.by_past_runs),
            )
        self.unknown.update(uid for uid in plan.unknown if uid not in self.said)

    def began(self, uid: str, now_s: float) -> None:
        """Record the first start of a job or array task."""
        self.started.setdefault(uid, now_s)

    def held(self, uids: Iterable[str]) -> Held | None:
        """Return the quality of the estimates for this work; None if no work with an estimate has
        started.
        """
        pairs = [
            (self.said[uid], self.started[uid])
            for uid in uids
            if uid in self.said and uid in self.started
        ]
        if not pairs:
            return None
        late = [start - said.at_s for said, start in pairs]
        return Held(
            count=len(pairs),
            by_then_pct=100 * sum(by <= SLACK_S for by in late) / len(late),
            early_p50_s=max(0.0, -quantile(late, 0.5)),
            late_p90_s=max(0.0, quantile(late, 0.9)),
            lead_p50_s=quantile([said.at_s - said.said_s for said, _ in pairs], 0.5),
        )

    def within(self) -> tuple[int, int, int]:
        """Return the numbers of starts before the first estimated time, between the two times, and
        after the second. Only estimates that use past run times have two times.
        """
        before = between = after = 0
        for uid, said in self.said.items():
            start = self.started.get(uid)
            if start is None or said.earliest_s is None:
                continue
            before += start < said.earliest_s - SLACK_S
            after += start > said.at_s + SLACK_S
            between += said.earliest_s - SLACK_S <= start <= said.at_s + SLACK_S
        return before, between, after


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value that this fraction of all values does not exceed; 0 if there are no
    values.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
