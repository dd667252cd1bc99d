"""What each queue deserves by its weight, among the queues that have work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from phalanx.manifests.queue_rules import ROOT
from phalanx.scheduler.cycle.specs import Amounts, QueueSpec
from phalanx.scheduler.plugin_parts.hierarchy import weight_of


class _Level:
    """A queue, or a step of queues' paths, with what lies below it."""

    def __init__(self, queue: QueueSpec | None, weight: float) -> None:
        self.queue = queue
        self.weight = weight
        self.below: list[_Level] = []
        self._steps: dict[str, _Level] = {}

    def step(self, name: str, weight: float) -> _Level:
        """The step of this name below; the first queue that names it says what it weighs."""
        found = self._steps.get(name)
        if found is None:
            found = self._steps[name] = _Level(None, weight)
            self.below.append(found)
        return found

    def is_busy(self, busy: Collection[str]) -> bool:
        """Whether it has work, here or below."""
        is_itself = self.queue is not None and self.queue.name in busy
        return is_itself or any(level.is_busy(busy) for level in self.below)


def with_deserved(
    queues: Sequence[QueueSpec], busy: Collection[str], total: Mapping[str, float]
) -> list[QueueSpec]:
    """The queues with `deserved` filled in where nobody set it: the part of `total` (or of what
    the parent deserves) that its weight gives it among its busy siblings; at least its guarantee,
    at most its capability. A queue is busy that has work, here or below. Idle ones deserve their
    guarantee only.

    Queues with a path (Volcano's annotation `volcano.sh/hierarchy`) and no parent share by the
    weights of its steps.
    """
    found: dict[str, QueueSpec] = {}

    def share_out(above: _Level, amounts: Mapping[str, float]) -> None:
        active = [level for level in above.below if level.is_busy(busy)]
        weights = sum(level.weight for level in active)
        for level in above.below:
            part = level.weight / weights if level in active else 0.0
            queue = level.queue
            if queue is None:
                mine = {name: amount * part for name, amount in amounts.items()}
            else:
                mine = dict(queue.deserved) or _within(queue, amounts, part)
                found[queue.name] = msgspec.structs.replace(queue, deserved=_sorted(mine))
            share_out(level, mine)

    share_out(_tree(queues), total)
    return [found.get(q.name, q) for q in queues]


def _tree(queues: Sequence[QueueSpec]) -> _Level:
    root = _Level(None, 1.0)
    levels = {q.name: _Level(q, float(q.weight)) for q in queues}
    levels[ROOT] = root
    for queue in queues:
        if queue.name == ROOT:
            continue
        above = levels.get(queue.parent or ROOT)
        if above is root and queue.hierarchy_path:
            weights = queue.hierarchy_weights.split("/")
            for i, name in enumerate(queue.hierarchy_path.split("/")[1:], 1):
                above = above.step(name, weight_of(weights, i))
        if above is not None:
            above.below.append(levels[queue.name])
    return root


def _within(queue: QueueSpec, amounts: Mapping[str, float], part: float) -> dict[str, float]:
    least, most = dict(queue.guarantee), dict(queue.capability)
    mine = {name: amount * part for name, amount in amounts.items()}
    for name, amount in most.items():
        mine[name] = min(mine.get(name, amount), amount)
    for name, amount in least.items():
        mine[name] = max(mine.get(name, 0.0), amount)
    return mine


def _sorted(amounts: Mapping[str, float]) -> Amounts:
    return tuple(sorted(amounts.items()))
