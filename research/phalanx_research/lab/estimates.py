"""What people were told of when their work starts, and when it did."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.model.rows.plan import TimePlan

SLACK_S = 60.0
"""A start that is late by less than this was as said: people are told minutes."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What was first said of one start, in seconds of the day."""

    said_s: float
    at_s: float
    earliest_s: float | None
    is_learnt: bool
    """It rests on past runs, not on limits alone."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """How good first estimates were of those that started."""

    count: int
    by_then_pct: float
    """Started when it was said, or before."""
    early_p50_s: float
    """How much before, of half of them at least."""
    late_p90_s: float
    """How much later than said nine in ten started at most; 0: no later."""
    lead_p50_s: float
    """How long before the time that it names an estimate was made, of half of them."""


class Estimates:
    """The first estimate of each job and element that waited when somebody looked."""

    def __init__(self, midnight: float) -> None:
        """`midnight`: the beginning of the day, in seconds since the epoch."""
        self.midnight = midnight
        self.said: dict[str, Said] = {}
        self.started: dict[str, float] = {}
        self.unknown: set[str] = set()
        """Of whom nobody could say when they start when they were first seen to wait."""

    def look(self, plan: TimePlan) -> None:
        """A plan as people are shown it."""
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
        """A job or element started, the first time."""
        self.started.setdefault(uid, now_s)

    def held(self, uids: Iterable[str]) -> Held | None:
        """Of these; None where nothing was said of any that started."""
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
        """Of those with two times, of which run times were learnt: how many started before the
        first, between them, and after the second."""
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
    """The value that this part of all does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
