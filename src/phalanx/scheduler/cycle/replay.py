"""Runs cycles on recorded snapshots again, and compares the plans with the expected results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from phalanx.scheduler.cycle import explain
from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.expectation import differences
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.specs import Snapshot


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The plans of one snapshot, one for each cycle, and the differences from the expected result.

    `differences`: None if the snapshot states no expected result.
    """

    name: str
    snapshot: Snapshot
    plans: tuple[Plan, ...]
    differences: tuple[str, ...] | None

    @property
    def ok(self) -> bool | None:
        return None if self.differences is None else not self.differences


def replay(snapshot: Snapshot, cycles: int = 1, shells: Mapping[str, Any] | None = None) -> Outcome:
    """Run `cycles` cycles over one snapshot. Each cycle starts from the state to which the last
    plan leads. The expected result is compared with all plans together. `shells`: as for
    `run_cycle`.
    """
    now = snapshot
    plans: list[Plan] = []
    for i in range(max(1, cycles)):
        if i:
            now = after(now, plans[-1])
        plans.append(run_cycle(now, shells=shells))
    found = None
    if snapshot.expect is not None:
        found = tuple(differences(snapshot, plans))
    return Outcome(name=snapshot.name, snapshot=snapshot, plans=tuple(plans), differences=found)


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of one snapshot for JSON. The plans of several cycles are merged."""
    last = outcome.plans[-1]
    binds: dict[str, str] = {}
    evicted: list[str] = []
    for plan in outcome.plans:
        binds.update(plan.binds)
        evicted += [t for t in plan.evicted if t not in evicted]
    return {
        "name": outcome.name,
        "binds": binds,
        "evicted": sorted(evicted),
        "pipelined": dict(last.pipelined),
        "phases": dict(last.phases),
        "rejections": explain.as_data(last.rejections),
        "ok": outcome.ok,
    }
