"""The waiting demands of a node, and how many workers each owner's class has asked for and got."""

from __future__ import annotations

from typing import Any

from phalanx.node.leases.model import Demand, DemandKey


class Demands:
    """The demands of a node that are not met yet, in the order of their arrival."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[bytes, int, bytes], Demand] = {}
        """The waiting demands, by owner, class and actor."""
        self._made: dict[DemandKey, int] = {}
        """For each owner's class: how many workers it was granted so far, including grants on their
        way to the owner.
        """
        self._wanted: dict[DemandKey, int] = {}
        """For each owner's class: how many workers the owner has asked for so far, including those
        that it has got.
        """
        self._order = 0

    def all(self) -> list[Demand]:
        """Return all waiting demands."""
        return list(self._waiting.values())

    def of(self, owner: bytes, scheduling_class: int) -> Demand | None:
        """Return the waiting demand of an owner's class; None if the class lacks no worker."""
        return self._waiting.get((owner, scheduling_class, b""))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def is_known(self, owner: bytes, scheduling_class: int) -> bool:
        """Whether an owner's class has asked for workers here and is not over."""
        return (owner, scheduling_class) in self._wanted

    def want(self, now: float, seen: int, **fields: Any) -> Demand | None:
        """Set how many more workers a class would use. Returns its demand; None if it needs no
        more.

        `seen`: how many grants the owner had received when it asked. Later grants are subtracted
        from the requested number.
        """
        owner_class = (fields["owner"], fields["scheduling_class"])
        actor = fields.get("actor", b"")
        if not actor:
            made = self._made.get(owner_class, 0)
            self._wanted[owner_class] = fields["count"] + min(seen, made)
            fields["count"] = self._wanted[owner_class] - made
        key = (*owner_class, actor)
        if fields["count"] <= 0:
            self._waiting.pop(key, None)
            return None
        demand = self._waiting.get(key)
        if demand is None:
            self._order += 1
            demand = self._waiting[key] = Demand(order=self._order, since=now, **fields)
        else:
            demand.count = fields["count"]
        return demand

    def made(self, demand: Demand) -> None:
        """Note that a worker was found for a demand. It counts as granted to the demand's class."""
        self._made[demand.key] = self._made.get(demand.key, 0) + 1

    def granted_elsewhere(self, owner: bytes, scheduling_class: int) -> None:
        """Count a worker that another node has lent to a class, and subtract it from the class's
        demand.
        """
        key = (owner, scheduling_class)
        self._made[key] = self._made.get(key, 0) + 1
        demand = self._waiting.get((*key, b""))
        if demand is not None:
            demand.count -= 1
            if demand.count <= 0:
                self.remove(demand)

    def stand_again(self, demand: Demand) -> None:
        """Let a demand wait again, because the worker that was found for it died before it was
        used. Do nothing if no worker is wanted any more.
        """
        key = demand.key
        if key not in self._made:
            return  # the owner or the class no longer exists
        self._made[key] -= 1
        if demand.actor:
            count = 0 if demand.is_withdrawn else 1
        else:
            count = self._wanted[key] - self._made[key]
        if count > 0:
            self._waiting.setdefault((*key, demand.actor), demand).count = count

    def remove(self, demand: Demand) -> None:
        """Remove a demand that is met or cannot be met."""
        self._waiting.pop((*demand.key, demand.actor), None)

    def withdraw_actor(self, actor: bytes) -> None:
        """Remove the demand of an actor that must not be placed any more."""
        for key in [k for k in self._waiting if k[2] == actor]:
            del self._waiting[key]

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Forget a class that will need no more workers."""
        key = (owner, scheduling_class)
        self._waiting.pop((*key, b""), None)
        self._made.pop(key, None)
        self._wanted.pop(key, None)

    def owner_gone(self, owner: bytes) -> None:
        """Forget all demands of a process that has ended."""
        for demand in [d for d in self._waiting.values() if d.owner == owner]:
            self.remove(demand)
        for counts in (self._made, self._wanted):
            for key in [k for k in counts if k[0] == owner]:
                del counts[key]
