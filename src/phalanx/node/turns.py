"""Whose turn it is on a node: the order of what waits, and which lease is to come back for it.

Demands stand in order of priority, then of what their queue holds for its weight, then of how
little their owner's class holds, then of arrival. For a demand that finds nothing free a lease of
others is made due: of lower priority first, then of whoever holds more than a fair share.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.node.lease import Demand, DemandKey, Lease
from phalanx.node.queue_usage import QueueShares
from phalanx.resources.instances import NodeResources

MIN_HOLD_S = 0.01
LONGEST_HOLD_S = 0.5
"""After this long an equal may ask for a lease, whatever each holds: one task of the asker's that
never ends may be all that its share is used for."""


class Turns:
    """Counts what each class and each queue holds here."""

    def __init__(self, resources: NodeResources) -> None:
        self._resources = resources
        self._held: dict[DemandKey, int] = {}
        self.shares = QueueShares()

    def begins(self, demand: Demand) -> None:
        """One more lease of it begins."""
        self._held[demand.key] = self._held.get(demand.key, 0) + 1
        if demand.group is None:
            self.shares.take(demand.queue, demand.hold)

    def ends(self, demand: Demand) -> None:
        """One of its leases ends."""
        self._held[demand.key] -= 1
        if not self._held[demand.key]:
            del self._held[demand.key]
        if demand.group is None:
            self.shares.give_back(demand.queue, demand.hold)

    def in_order(self, demands: list[Demand]) -> list[Demand]:
        """Those that wait, who is next first."""
        held = self._held
        shares = dict.fromkeys((d.queue for d in demands), 0.0)
        if len(shares) > 1:
            total = self._resources.total_units()
            shares = {queue: self.shares.of(queue, total) for queue in shares}
        return sorted(
            demands,
            key=lambda d: (-d.priority, shares[d.queue], held.get(d.key, 0), d.order),
        )

    def victim(self, demand: Demand, leases: Iterable[Lease], now: float) -> Lease | None:
        """The lease that is to come back for this demand, if any has to."""
        held = self._held.get(demand.key, 0)
        best: tuple[tuple[int, int, int], Lease] | None = None
        for lease in leases:
            victim = lease.demand
            if lease.is_due or victim.actor or victim.key == demand.key or not lease.is_granted:
                continue
            if lease.is_blocked or now - lease.since < MIN_HOLD_S:
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
        return None if best is None else best[1]
