"""Room that a node keeps for gangs, because the head is about to place them there."""

from __future__ import annotations

from phalanx.model.ids import GroupId
from phalanx.node.leases.model import Demand
from phalanx.protocol.bundle_messages import ClaimRoom
from phalanx.scheduler.devices.sets import ResourceSet

AHEAD = -(1 << 62)
"""The number from which claims are counted in the order of arrival. It is so low that a claim
counts as older than every task. So the claim comes first among demands with the same priority,
whose queues have the same share of the node, and whose classes hold no lease.

Tasks lose little by waiting, because room for them becomes free whenever a task ends.
"""


class Claims:
    """The claims of gangs on this node. A claim keeps resources free for a gang. It ends when it is
    withdrawn, met, or not renewed in time.
    """

    def __init__(self) -> None:
        self._claims: dict[bytes, tuple[float, Demand]] = {}
        """For each gang: the time when its claim ends, and the demand that represents the claim in
        the node's queue.
        """
        self._order = 0

    def all(self) -> list[Demand]:
        """Return the demands of all claims, the oldest first."""
        return [demand for _, demand in self._claims.values()]

    def set(self, message: ClaimRoom, now: float) -> None:
        """Keep the amounts in `message.needs` free for a gang. If there are no amounts, end the
        claim of the gang.
        """
        if not message.needs:
            self.end(message.group)
            return
        needs = ResourceSet.from_mapping(message.needs)
        before = self._claims.get(message.group)
        self._order += before is None
        demand = Demand(
            owner=message.group,
            scheduling_class=-1,
            place=needs,
            hold=needs,
            count=1,
            order=AHEAD + self._order if before is None else before[1].order,
            priority=message.priority,
            queue=message.queue,
            since=now,
            is_claim=True,
        )
        self._claims[message.group] = (now + message.seconds, demand)

    def end(self, group: GroupId) -> None:
        """Forget the claim of a gang that needs no room any more."""
        self._claims.pop(group, None)

    def tick(self, now: float) -> bool:
        """Forget claims that were not renewed. Returns whether any was forgotten."""
        late = [group for group, (until, _) in self._claims.items() if now >= until]
        for group in late:
            del self._claims[group]
        return bool(late)
