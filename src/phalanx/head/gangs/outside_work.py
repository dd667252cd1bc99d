"""What work outside of gangs takes of nodes: what they report as taken, and no gang holds.

Nodes report late: what a gang has just got may not be taken yet by their account.
"""

from __future__ import annotations

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import PLACELESS
from phalanx.head.nodes import NodeDirectory
from phalanx.manifests.quantities import batch_amounts
from phalanx.scheduler.cycle.specs import Amounts
from phalanx.scheduler.devices.quantities import from_units, to_units


class OutsideWork:
    """Worked out anew for nodes that reported, and for those of which gangs hold something else.
    Follows the life cycle of members."""

    def __init__(self, nodes: NodeDirectory) -> None:
        self._nodes = nodes
        self._held: dict[str, dict[str, int]] = {}
        """What gangs hold of each node, in units of 1/10000."""
        self._changed = dict.fromkeys(record.node_id for record in nodes.living())

    def node_changed(self, node_id: str) -> None:
        """A node reported, joined, or is dead."""
        self._changed[node_id] = None

    def gang_known(self, gang: Gang) -> None:
        """A gang is known again, with what it holds."""
        for member in gang.members:
            if member.state not in PLACELESS:
                self._count(member.node, member.need, 1)

    def members_moved(self, gang: Gang, move: Move) -> None:
        """See Follower."""
        for index, before, node in zip(move.indexes, move.before, move.nodes, strict=True):
            member = gang.members[index]
            held, holds = before not in PLACELESS, member.state not in PLACELESS
            if held and not holds:
                self._count(node, member.need, -1)
            elif holds and not held:
                self._count(member.node, member.need, 1)

    def _count(self, node: str, need: dict[str, float], sign: int) -> None:
        held = self._held.setdefault(node, {})
        for name, amount in need.items():
            held[name] = held.get(name, 0) + sign * to_units(amount)
        self._changed[node] = None

    def changes(self) -> dict[str, Amounts]:
        """What is taken of the nodes of which that may be something else than the last time."""
        changed, self._changed = self._changed, {}
        found = {}
        for node in changed:
            if self._nodes.is_alive(node):
                found[node] = self.taken(node)
            else:
                self._held.pop(node, None)
        return found

    def taken(self, node_id: str) -> Amounts:
        """What work outside of gangs takes of a node."""
        row = self._nodes.row(node_id)
        held = self._held.get(node_id, {})
        taken = {}
        for name, total in row.total.items():
            free = to_units(row.available.get(name, 0.0))
            units = to_units(total) - free - held.get(name, 0)
            if units > 0:
                taken[name] = from_units(units)
        return batch_amounts(taken)
