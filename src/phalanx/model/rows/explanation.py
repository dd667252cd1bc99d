"""The reasons why a job, gang, task or actor waits, as data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from phalanx.model.gpu_sharing import CARDS, GPU
from phalanx.model.readable import amount, duration, size
from phalanx.model.rows.plan import Basis

OTHERS = "others/"
"""The name of a single holder that stands for all ordinary tasks and actors."""
BYTES = ("memory", "object_store_memory", "gpu_memory", "gpu_memory_limit")
"""The resources that are counted in bytes."""
_SUBJECTS = ("resource", "queue", "who", "labels", "license", "role", "policy", "task")
"""The details in which two reasons with the same code may differ."""
_SHOWN = 3
"""The largest number of tasks that a text names."""
_EPOCHS = 1e9
"""Times of at least this number of seconds are wall-clock times. The text of an explanation leaves
them out; the field `at_s` has them.
"""


def amounts_text(amounts: Mapping[str, float]) -> str:
    """Return amounts in words, such as "2 CPU, 1.5 GiB memory". If the amounts have GPUs, the
    number of cards is left out, because it is the same.
    """
    return ", ".join(
        f"{round(value / 2**30, 2):g} GiB {name}" if name in BYTES else f"{amount(value)} {name}"
        for name, value in amounts.items()
        if name != CARDS or GPU not in amounts
    )


_WORDS = {"element": "array task"}
"""The words for kinds of work whose names in JSON are those of an earlier version."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason.

    A reason has a code, the number of nodes, tasks or podgroups to which the reason applies, the
    amounts behind it, a sentence, and the change that would help ("" if no change would help).
    `plugin` is the scheduler's plugin that gave the reason, or "" for the scheduler itself.
    """

    reason: str
    count: int
    detail: dict[str, Any]
    sentence: str
    change: str
    plugin: str = ""


class AlikeTasks(msgspec.Struct, frozen=True, kw_only=True):
    """A group of tasks that wait for the same reasons."""

    names: list[str]
    reasons: list[Reason]


class ExpectedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The expected start of a podgroup. It depends on assumed run times.

    The fields are the wall-clock time in seconds, the seconds until then, the number of tasks that
    end before it, and the basis of the estimate. `earliest_s` is as in PlannedStart.
    """

    at_s: float
    in_s: float
    after_tasks: int
    basis: Basis
    is_promised: bool
    """Whether the scheduler keeps these places for the podgroup. If not, other podgroups may take
    the places, and this podgroup starts later.
    """
    earliest_s: float | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A podgroup that holds resources for which another podgroup waits. `ends_in_s`: the seconds
    until the holder ends at the latest; None if unknown.
    """

    podgroup: str
    queue: str
    resource: str
    amount: float
    ends_in_s: float | None = None

    def __str__(self) -> str:
        is_outside = self.podgroup == OTHERS
        name = "tasks and actors" if is_outside else self.podgroup.removeprefix("default/")
        until = "" if self.ends_in_s is None else f", for {duration(self.ends_in_s)} at most"
        much = size(self.amount) if self.resource in BYTES else amount(self.amount)
        return f"{name} ({much} {self.resource}{until})"


class Holders(msgspec.Struct, frozen=True, kw_only=True):
    """The holders of the resources for which a podgroup waits: the largest holders, and the number
    of other holders.
    """

    most: list[Holder]
    others: int = 0

    def __str__(self) -> str:
        others = f", and {self.others} more" if self.others else ""
        return ", ".join(map(str, self.most)) + others


class MovedWork(msgspec.Struct, frozen=True, kw_only=True):
    """Running work that is moved to other nodes: the seconds of lost work, and the seconds of its
    restart.
    """

    podgroup: str
    lost_s: float
    restart_s: float


class WouldMove(msgspec.Struct, frozen=True, kw_only=True):
    """Moves of running work that let a podgroup start immediately. `is_decided`: whether the
    scheduler has decided to make these moves. `is_on`: whether the scheduler's configuration has
    the action consolidate, which makes such moves.
    """

    jobs: list[MovedWork]
    is_decided: bool
    is_on: bool

    def __str__(self) -> str:
        names = in_words([one.podgroup.removeprefix("default/") for one in self.jobs])
        cost = f"({self.cost})"
        if self.is_decided:
            are = "is" if len(self.jobs) == 1 else "are"
            return f"{names} {are} moved {cost} so that it starts at once"
        off = "" if self.is_on else "; the action consolidate, which makes such moves, is off"
        return f"moving {names} {cost} would start it at once{off}"

    @property
    def cost(self) -> str:
        """In words: how much work the moves lose, and how long the restarts take."""
        return cost_in_words(
            sum(one.lost_s for one in self.jobs), sum(one.restart_s for one in self.jobs)
        )


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of why a podgroup or task waits. Fields that do not apply keep their
    defaults.
    """

    snapshot: str
    name: str
    kind: str
    """job, gang, task, actor, flow or cron job; in a snapshot, podgroup or task."""
    waits: bool
    reasons: list[Reason]
    node: str | UnsetType = UNSET
    """The node on which the task runs, or ran until it was evicted."""
    state: str | UnsetType = UNSET
    """The state of a podgroup or task that does not wait, as a verb such as "runs"."""
    evicted: bool | UnsetType = UNSET
    expected_start: ExpectedStart | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    tasks: list[AlikeTasks] | UnsetType = UNSET
    """For a podgroup: the waiting tasks, grouped by their reasons."""
    position: int | UnsetType = UNSET
    """The position in the queue, counted from 1."""
    because: list[Reason] = []
    """The main reasons: without them, the podgroup or task would not wait."""
    holders: Holders | UnsetType = UNSET
    moves: WouldMove | UnsetType = UNSET
    """Moves of running work after which the podgroup starts, or would start, immediately."""

    @property
    def main(self) -> str:
        """The main reasons in one sentence; "" if unknown."""
        return "; ".join(one.sentence for one in self.because)

    @property
    def further(self) -> list[Reason]:
        """The reasons that are not main reasons."""
        return [one for one in self.reasons if not _is_among(one, self.because)]

    @property
    def apart(self) -> list[AlikeTasks]:
        """The groups of tasks whose reasons differ from the main reasons."""
        return [
            AlikeTasks(names=alike.names, reasons=own)
            for alike in self.tasks or ()
            if (own := [one for one in alike.reasons if not _is_among(one, self.because)])
        ]

    def lines(self, *, several: bool = False) -> list[str]:
        """Return the explanation as lines of text. `several`: whether the lines name the snapshot,
        because several snapshots are explained.
        """
        where = f"{self.snapshot}: " if several and self.snapshot else ""
        of = f" of queue {self.queue}" if self.queue is not UNSET else ""
        why = f": {self.main}" if self.because else ""
        out = [f"{where}{_WORDS.get(self.kind, self.kind)} {self.name}{of} {self._state()}{why}"]
        out += [f"  to change that: {one.change}" for one in self.because if one.change]
        if self.holders is not UNSET:
            out.append(f"  held by {self.holders}")
        if self.moves is not UNSET:
            out.append(f"  {self.moves}")
        if self.expected_start is not UNSET:
            out.append(f"  {_when(self.expected_start)}")
        if self.position is not UNSET:
            out.append(f"  it is number {self.position} of those that wait in its queue")
        for one in self.further:
            out.append(f"  - {one.sentence}")
            if one.change and not self.because:
                out.append(f"    to change that: {one.change}")
        for alike in self.apart:
            names = alike.names
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            what = "tasks" if len(names) > 1 else "task"
            out.append(f"  {what} {', '.join(names[:_SHOWN])}{more}")
            out += [f"    - {one.sentence}" for one in alike.reasons]
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


def cost_in_words(lost_s: float, restart_s: float) -> str:
    """Return the cost of moves in words: the seconds of lost work and of restarts."""
    restarts = f", {duration(restart_s)} of restarts" if restart_s else ""
    return f"{duration(lost_s)} of work lost{restarts}"


def in_words(names: Sequence[str]) -> str:
    """Return a list of names for a sentence: the first names, and how many more there are."""
    shown = list(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown.append(f"{len(names) - _SHOWN} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _when(expected: ExpectedStart) -> str:
    count = expected.after_tasks
    ends = "1 task has" if count == 1 else f"{count} tasks have"
    early = ""
    if expected.earliest_s is not None:
        first_s = max(expected.in_s - (expected.at_s - expected.earliest_s), 0.0)
        early = f"{duration(first_s)} to "
    held = "" if expected.is_promised else ", if no other job fills its places before"
    at = f" (at {expected.at_s:g})" if expected.at_s < _EPOCHS else ""
    after = f", once {ends} ended, if run times hold ({expected.basis})" if count else ""
    return f"expected to start in {early}{duration(expected.in_s)}{at}{after}{held}"


def _is_among(one: Reason, because: Sequence[Reason]) -> bool:
    """Whether `because` contains the reason `one`, regardless of the number of tasks that have
    it.
    """
    return any(
        one.reason == main.reason
        and all(one.detail.get(name) == main.detail.get(name) for name in _SUBJECTS)
        for main in because
    )
