"""The order of the demands that wait on a node, and the choice of the leases that are returned for
them.

Demands are ordered by priority, then by what their queue holds relative to its weight (least
first), then by what their owner's class holds (least first), then by arrival. If nothing is free
for a demand, a lease of another class must be returned: a lease of lower priority or, if there is
none, a lease of a class that holds more than a fair share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from phalanx.node.leases.model import Demand, DemandKey, Lease
from phalanx.node.queue_usage import QueueShares
from phalanx.scheduler.devices.instances import NodeResources

MIN_HOLD_S = 0.01
"""Seconds for which a lease is held before it may become due."""
LONGEST_HOLD_S = 0.5
"""Seconds after which a lease may become due for another class of its queue, whatever the two
classes hold.

Otherwise a class that holds one lease, whose task never ends, could wait forever.
"""

FIRST_BEYOND_S = 1.0
LONGEST_BEYOND_S = 10.0
"""The first delay (FIRST_BEYOND_S) and the longest delay (LONGEST_BEYOND_S), in seconds, before a
class whose tasks already fill the node may start one more task (see `LeaseQueue.admit`).
"""


class LeaseQueue:
    """Counts the leases of each class and each queue on this node. The order of demands follows
    from these counts.
    """

    def __init__(self, resources: NodeResources) -> None:
        self._resources = resources
        self._held: dict[DemandKey, int] = {}
        self._next_at: dict[DemandKey, float] = {}
        """For each class with more leases than fill the node: the time when its next lease may
        begin.
        """
        self.shares = QueueShares()

    def admit(self, demand: Demand, now: float) -> bool:
        """Whether one more lease of the demand's class may begin now. If it may not, and no delay
        is running, the delay begins.

        Tasks that wait in `get` lend their CPUs, so more tasks of a class can start than fill the
        node's CPUs. The tasks that fill the CPUs start without a delay. Each further task starts
        after a delay of 1, 2, 4, 8, 10, 10 … seconds, as in Ray. So tasks that wait for each other
        make progress, and a large number of waiting tasks does not become an equal number of
        processes.
        """
        cpus = demand.hold.get("CPU", 0)
        if not cpus or demand.actor:
            return True
        fill = max(1, round(self._resources.total_units().get("CPU", 0) / cpus))
        beyond = self._held.get(demand.key, 0) - fill
        if beyond < 0:
            return True
        delay_s = min(FIRST_BEYOND_S * 2.0 ** min(beyond, 16), LONGEST_BEYOND_S)
        return now >= self._next_at.setdefault(demand.key, now + delay_s)

    def begins(self, demand: Demand) -> None:
        """Count one more lease for the demand."""
        self._next_at.pop(demand.key, None)
        self._held[demand.key] = self._held.get(demand.key, 0) + 1
        if demand.group is None:
            self.shares.take(demand.queue, demand.hold)

    def ends(self, demand: Demand) -> None:
        """Count one lease less for the demand."""
        self._held[demand.key] -= 1
        self._next_at.pop(demand.key, None)
        if not self._held[demand.key]:
            del self._held[demand.key]
        if demand.group is None:
            self.shares.give_back(demand.queue, demand.hold)

    def in_order(self, demands: list[Demand]) -> list[Demand]:
        """Return the waiting demands in the order in which they are met."""
        held = self._held
        shares = dict.fromkeys((d.queue for d in demands), 0.0)
        if len(shares) > 1:
            total = self._resources.total_units()
            shares = {queue: self.shares.of(queue, total) for queue in shares}
        return sorted(
            demands,
            key=lambda d: (-d.priority, shares[d.queue], held.get(d.key, 0), d.order),
        )

    def victim(
        self, demand: Demand, leases: Iterable[Lease], now: float
    ) -> tuple[Lease | None, float]:
        """Return the lease that must be returned for this demand (None if there is none), and the
        time to try again.

        At that time, a lease that is too young now may be chosen.
        """
        held = self._held.get(demand.key, 0)
        best: tuple[tuple[int, int, int], Lease] | None = None
        ripe_at = math.inf
        for lease in leases:
            victim = lease.demand
            if lease.is_due or victim.actor or victim.key == demand.key or not lease.is_granted:
                continue
            if lease.is_blocked:
                continue
            if now < lease.since + MIN_HOLD_S:
                ripe_at = min(ripe_at, lease.since + MIN_HOLD_S)
                continue
            share = self._held.get(victim.key, 0)
            is_long = now - lease.since > LONGEST_HOLD_S
            fairer = share > held + 1 or held == 0 or is_long
            if victim.priority > demand.priority:
                continue
            if victim.queue != demand.queue:
                total = self._resources.total_units()
                gives = (victim.queue, victim.hold)
                fairer = self.shares.may_take(demand.queue, demand.hold, *gives, total)
            if victim.priority == demand.priority and not fairer:
                continue
            rank = (victim.priority, -share, -lease.number)
            if best is None or rank < best[0]:
                best = (rank, lease)
        return None if best is None else best[1], ripe_at
