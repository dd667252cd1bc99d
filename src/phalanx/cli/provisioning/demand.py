"""Computes how many more nodes of a pool would let waiting work start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phalanx.cli.provisioning.pools import Pool
from phalanx.manifests.quantities import batch_amounts
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.inquiry import plan_snapshot
from phalanx.scheduler.forecast.what_if import PLANNED, with_nodes_of

Amounts = Mapping[str, float]


def with_pool(snapshot: Snapshot, pool: Pool, count: int) -> Snapshot:
    """Return the snapshot with `count` more empty nodes of the pool."""
    if not count:
        return snapshot
    return with_nodes_of(snapshot, count, batch_amounts(pool.resources), pool.labels)


def nodes_for_gangs(snapshot: Snapshot, pool: Pool, room: int) -> int:
    """Return the smallest number of additional nodes with which as many gangs start now as with
    `room` additional nodes.

    The plan is made as by `phalanx plan`, so that queues, shares and limits count: a gang that
    waits for its share needs no node.
    """
    least, most = 0, room
    goal = _started(with_pool(snapshot, pool, room))
    if room < 1 or goal == _started(snapshot):
        return 0
    while least + 1 < most:
        middle = (least + most) // 2
        if _started(with_pool(snapshot, pool, middle)) < goal:
            least = middle
        else:
            most = middle
    return most


def _started(snapshot: Snapshot) -> int:
    plan = plan_snapshot(snapshot, PLANNED)
    return sum(one.at_s <= plan.now for one in plan.starts)


def nodes_for_demands(
    demands: Iterable[Amounts], free: Sequence[Amounts], pool: Pool, room: int
) -> int:
    """Return how many nodes of the pool these demands need in addition to the `free` amounts.

    Each demand is the request of a task or actor, and is placed on the first node on which it fits.
    Two kinds of demands are left out: demands that fit on no node of the pool, and demands for
    which `room` nodes are not enough.
    """
    left = [dict(one) for one in free]
    for demand in demands:
        place = next((one for one in left if _fits(demand, one)), None)
        if place is None:
            is_full = len(left) - len(free) >= room
            if is_full or not _fits(demand, pool.resources):
                continue
            place = dict(pool.resources)
            left.append(place)
        for name, amount in demand.items():
            place[name] = place.get(name, 0.0) - amount
    return len(left) - len(free)


def _fits(demand: Amounts, room: Amounts) -> bool:
    return all(room.get(name, 0.0) >= amount for name, amount in demand.items())
