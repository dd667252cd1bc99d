"""Computes what each queue deserves by its weight, among the queues that have work.

The plugin `capacity` reads these amounts for resources of which a queue declares none. The plugin
`proportion` computes its own amounts in each cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from phalanx.manifests.queue_rules import ROOT
from phalanx.scheduler.cycle.specs import Amounts, QueueSpec
from phalanx.scheduler.plugin_parts.hierarchy import weight_of


class _Level:
    """A queue, or one step of the paths of queues, with the levels below it."""

    def __init__(self, queue: QueueSpec | None, weight: float) -> None:
        self.queue = queue
        self.weight = weight
        self.below: list[_Level] = []
        self._steps: dict[str, _Level] = {}

    def step(self, name: str, weight: float) -> _Level:
        """Return the level with this name below this level. A missing level is created. The weight
        of a level comes from the first queue that names it.
        """
        found = self._steps.get(name)
        if found is None:
            found = self._steps[name] = _Level(None, weight)
            self.below.append(found)
        return found

    def declares(self, name: str) -> bool:
        """Whether the queue itself declares a deserved amount of a resource."""
        return self.queue is not None and name in dict(self.queue.deserved)

    def promised(self, name: str, busy: Collection[str]) -> float:
        """Return the least amount of a resource that the level deserves while it is busy. If the
        level's queue declares an amount, that amount is returned. Otherwise the result is the sum
        of the amounts promised to the busy levels below. The result is never less than the queue's
        guarantee.
        """
        if not self.is_busy(busy):
            return 0.0
        own = 0.0
        if self.queue is not None:
            own = dict(self.queue.guarantee).get(name, 0.0)
            if self.declares(name):
                return max(own, dict(self.queue.deserved)[name])
        return max(own, sum(level.promised(name, busy) for level in self.below))

    def is_busy(self, busy: Collection[str]) -> bool:
        """Whether this level, or a level below it, has work."""
        is_itself = self.queue is not None and self.queue.name in busy
        return is_itself or any(level.is_busy(busy) for level in self.below)


def with_deserved(
    queues: Sequence[QueueSpec], busy: Collection[str], total: Mapping[str, float]
) -> list[QueueSpec]:
    """Return the queues with `deserved` filled in for the resources that it does not name.

    A queue is busy if it, or a queue below it, has work. Busy siblings divide `total`, or the
    amount that their parent deserves, resource by resource. A sibling that declares what it
    deserves of a resource gets that amount. All other siblings divide the rest by their weights. In
    Volcano a queue deserves nothing of a resource that it does not name. A sibling gets more than
    its share by weight if its guarantee, or the declarations of queues below it, exceed that share.
    No queue gets less than its guarantee or more than its capability. Idle queues deserve only
    their guarantee.

    Queues with a path (Volcano's annotation `volcano.sh/hierarchy`) and no parent share by the
    weights of its steps.
    """
    found: dict[str, QueueSpec] = {}

    def share_out(above: _Level, amounts: Mapping[str, float]) -> None:
        active = [level for level in above.below if level.is_busy(busy)]
        parts = {name: _parts(active, name, amount, busy) for name, amount in amounts.items()}
        for level in above.below:
            by_weight = {name: part.get(level, 0.0) for name, part in parts.items()}
            queue = level.queue
            if queue is None:
                mine = by_weight
            else:
                mine = _within(queue, by_weight) | dict(queue.deserved)
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


def _parts(
    active: Sequence[_Level], name: str, amount: float, busy: Collection[str]
) -> dict[_Level, float]:
    """Return each level's part of one resource: the amount that is promised to the level, or more
    by its weight. A queue that declares only other resources shares this resource by its weight,
    too.
    """
    parts = {level: level.promised(name, busy) for level in active}
    sharing = [level for level in active if not level.declares(name)]
    left = amount - sum(parts[level] for level in active if level.declares(name))
    while sharing:
        weights = sum(level.weight for level in sharing)
        each = {level: max(left, 0.0) * (level.weight / weights) for level in sharing}
        short = [level for level, part in each.items() if part < parts[level]]
        if not short:
            return parts | each
        left -= sum(parts[level] for level in short)
        sharing = [level for level in sharing if each[level] >= parts[level]]
    return parts


def _within(queue: QueueSpec, by_weight: Mapping[str, float]) -> dict[str, float]:
    least, most = dict(queue.guarantee), dict(queue.capability)
    mine = dict(by_weight)
    for name, amount in most.items():
        mine[name] = min(mine.get(name, amount), amount)
    for name, amount in least.items():
        mine[name] = max(mine.get(name, 0.0), amount)
    return mine


def _sorted(amounts: Mapping[str, float]) -> Amounts:
    return tuple(sorted(amounts.items()))
