"""Who holds what somebody waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phalanx.batch.plan import Rejection
from phalanx.batch.specs import Snapshot
from phalanx.batch.wording import resource_name
from phalanx.model.rows.explanation import Holder, Holders
from phalanx.model.rows.plan import RunningPlace

SHOWN = 5
"""So many are named, those that hold most."""
_OF_QUEUES = ("queue-quota", "queue-capability")
_OF_NODES = ("resource", "no-room-yet", "promised", "gang-not-whole", "no-single-node")
_SCARCE_LAST = ("pods", "memory", "cpu")
"""Of what is asked for, devices are what others hold; these only where there are none."""


def holders(
    snapshot: Snapshot, name: str, because: Sequence[Rejection], running: Iterable[RunningPlace]
) -> Holders | None:
    """Of what the main reasons say that `name`, a podgroup or task, lacks; None where that is
    nothing that others hold."""
    reason = next((one for one in because if one.reason in (*_OF_QUEUES, *_OF_NODES)), None)
    if reason is None:
        return None
    asked = _asked(snapshot, name)
    resource = reason.detail.get("resource") or _scarcest(asked)
    queues = _at_or_below(snapshot, reason.detail["queue"]) if reason.reason in _OF_QUEUES else None
    held = _held(snapshot, resource, queues)
    held.pop(name, None)
    ends = _ends(snapshot, running)
    queue_of = {group.uid: group.queue for group in snapshot.podgroups}
    order = sorted(held.items(), key=lambda one: (-one[1], one[0]))
    found = [
        Holder(
            podgroup=uid,
            queue=queue_of.get(uid, ""),
            resource=resource_name(resource),
            amount=amount,
            ends_in_s=ends.get(uid),
        )
        for uid, amount in order[:SHOWN]
    ]
    return Holders(most=found, others=len(order) - len(found)) if found else None


def _asked(snapshot: Snapshot, name: str) -> set[str]:
    asked = {
        resource
        for task in snapshot.tasks
        if name in (task.uid, f"{task.namespace}/{task.podgroup}")
        for resource, amount in task.shape.request
        if amount > 0
    }
    return asked - {"pods"}


def _scarcest(asked: set[str]) -> str:
    devices = sorted(asked.difference(_SCARCE_LAST))
    return devices[0] if devices else next((r for r in _SCARCE_LAST[::-1] if r in asked), "cpu")


def _at_or_below(snapshot: Snapshot, name: str) -> set[str]:
    found = {name}
    parents = {queue.name: queue.parent for queue in snapshot.queues}
    while more := {own for own, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _held(snapshot: Snapshot, resource: str, queues: set[str] | None) -> dict[str, float]:
    """By podgroup, of these queues, or of all."""
    known = {group.uid: group.queue for group in snapshot.podgroups}
    found: dict[str, float] = {}
    for task in snapshot.tasks:
        amount = dict(task.shape.request).get(resource, 0.0)
        uid = f"{task.namespace}/{task.podgroup}"
        if amount > 0 and task.node and (queues is None or known.get(uid) in queues):
            found[uid] = found.get(uid, 0.0) + amount
    return found


def _ends(snapshot: Snapshot, running: Iterable[RunningPlace]) -> dict[str, float | None]:
    """In how many seconds all of each podgroup has ended."""
    now = snapshot.now
    found: dict[str, float | None] = {}
    for one in running:
        end = None if one.ends_s is None else max(one.ends_s - now, 0.0)
        before = found.get(one.podgroup, 0.0)
        found[one.podgroup] = None if end is None or before is None else max(end, before)
    return found
