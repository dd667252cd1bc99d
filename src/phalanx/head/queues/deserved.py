"""What each queue deserves by its weight, among the queues that have work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from phalanx.batch.specs import Amounts, QueueSpec
from phalanx.manifests.queue_rules import ROOT


def with_deserved(
    queues: Sequence[QueueSpec], busy: Collection[str], total: Mapping[str, float]
) -> list[QueueSpec]:
    """The queues with `deserved` filled in where nobody set it: the part of `total` (or of what
    the parent deserves) that its weight gives it among its busy siblings; at least its guarantee,
    at most its capability. A queue is busy that has work, here or below. Idle ones deserve their
    guarantee only.
    """
    below: dict[str, list[QueueSpec]] = {}
    for queue in queues:
        if queue.name != ROOT:
            below.setdefault(queue.parent or ROOT, []).append(queue)
    found: dict[str, QueueSpec] = {q.name: q for q in queues if q.name == ROOT}

    def is_busy(queue: QueueSpec) -> bool:
        return queue.name in busy or any(is_busy(child) for child in below.get(queue.name, ()))

    def share_out(parent: str, amounts: Mapping[str, float]) -> None:
        children = below.get(parent, [])
        active = [q for q in children if is_busy(q)]
        weights = sum(q.weight for q in active)
        for queue in children:
            part = queue.weight / weights if queue in active and weights else 0.0
            mine = dict(queue.deserved) or _within(queue, amounts, part)
            found[queue.name] = msgspec.structs.replace(queue, deserved=_sorted(mine))
            share_out(queue.name, mine)

    share_out(ROOT, total)
    return [found.get(q.name, q) for q in queues]


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
