"""Why something waits, as data and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from phalanx.model.rows.plan import Basis

_SHOWN = 3
"""So many names of tasks are written out."""
_EPOCHS = 1e9
"""From here on, in seconds, a time is one since the epoch, which nobody reads: `at_s` has it."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason: its code, how many nodes, tasks or podgroups it concerns, the numbers behind it,
    and in words what it is and what would change it ("" where nothing does)."""

    reason: str
    count: int
    detail: dict[str, Any]
    sentence: str
    change: str


class AlikeTasks(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that wait for the same reasons."""

    names: list[str]
    reasons: list[Reason]


class ExpectedStart(msgspec.Struct, frozen=True, kw_only=True):
    """When a podgroup starts if run times hold: the time of day in seconds, in how many seconds,
    how many tasks end before, and what that rests on. `earliest_s` as in PlannedStart."""

    at_s: float
    in_s: float
    after_tasks: int
    basis: Basis
    is_promised: bool
    """Cycles keep its places for it; else others may fill them, and it starts later."""
    earliest_s: float | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a podgroup or task waits. Fields that do not apply are not set."""

    snapshot: str
    name: str
    kind: str
    """job, gang, task, actor, flow or cron job; of a snapshot, podgroup or task."""
    waits: bool
    reasons: list[Reason]
    node: str | UnsetType = UNSET
    """Where it runs, or ran until it was evicted."""
    state: str | UnsetType = UNSET
    """What it does while it does not wait, such as "runs"."""
    evicted: bool | UnsetType = UNSET
    expected_start: ExpectedStart | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    tasks: list[AlikeTasks] | UnsetType = UNSET
    """Of a podgroup: those of its tasks that wait."""
    position: int | UnsetType = UNSET
    """1 for the first that waits in its queue."""

    def lines(self, *, several: bool = False) -> list[str]:
        """In words; `several`: with the name of its snapshot."""
        where = f"{self.snapshot}: " if several and self.snapshot else ""
        of = f" of queue {self.queue}" if self.queue is not UNSET else ""
        out = [f"{where}{self.kind} {self.name}{of} {self._state()}"]
        if self.expected_start is not UNSET:
            out.append(f"  {_when(self.expected_start)}")
        out += _said(self.reasons)
        for alike in self.tasks or ():
            names = alike.names
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            what = "tasks" if len(names) > 1 else "task"
            out.append(f"  {what} {', '.join(names[:_SHOWN])}{more}")
            out += _said(alike.reasons, 4)
        if self.position is not UNSET:
            out.append(f"  it is number {self.position} of those that wait in its queue")
        return out

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _state(self) -> str:
        if self.evicted is True:
            return f"is evicted from {self.node}"
        if self.waits or self.tasks:
            return "waits"
        if self.state is not UNSET:
            return f"does not wait: it {self.state}"
        return f"runs on {self.node}" if self.node is not UNSET else "does not wait"


def _when(expected: ExpectedStart) -> str:
    count = expected.after_tasks
    ends = "1 task has" if count == 1 else f"{count} tasks have"
    early = ""
    if expected.earliest_s is not None:
        first_s = max(expected.in_s - (expected.at_s - expected.earliest_s), 0.0)
        early = f"{first_s:.0f} to "
    held = "" if expected.is_promised else ", and nobody fills in before it"
    at = f" (at {expected.at_s:g})" if expected.at_s < _EPOCHS else ""
    after = f", once {ends} ended, if run times hold ({expected.basis})" if count else ""
    return f"expected to start in {early}{expected.in_s:.0f} s{at}{after}{held}"


def _said(reasons: Sequence[Reason], indent: int = 2) -> list[str]:
    out = []
    for one in reasons:
        out.append(f"{' ' * indent}- {one.sentence}")
        if one.change:
            out.append(f"{' ' * indent}  to change that: {one.change}")
    return out
