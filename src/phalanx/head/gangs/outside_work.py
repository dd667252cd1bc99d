"""Computes the resources that work outside of gangs takes on nodes: a node's taken amounts, less
the amounts that gangs hold there.

Reports are late: they may not yet include the newest resources of a gang.
"""

from __future__ import annotations

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_lifecycle import Move
from phalanx.head.gangs.member_states import PLACELESS
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.manifests.quantities import batch_amounts
from phalanx.model.gpu_sharing import GPU, MEMORY, TERMS
from phalanx.scheduler.cycle.specs import Amounts
from phalanx.scheduler.devices.cards import card_ask
from phalanx.scheduler.devices.quantities import from_units, to_units


class OutsideWork:
    """The outside work of each node. The outside work of a node is computed again when the node
    reports, or when the amounts that gangs hold there change. This class follows the life cycle of
    members.
    """

    def __init__(self, nodes: NodeDirectory) -> None:
        self._nodes = nodes
        self._held: dict[str, dict[str, int]] = {}
        """The amounts that gangs hold on each node, in units of 1/10000."""
        self._changed = dict.fromkeys(record.node_id for record in nodes.living())

    def node_changed(self, node_id: str) -> None:
        """Note that a node reported, joined or died."""
        self._changed[node_id] = None

    def gang_known(self, gang: Gang) -> None:
        """Count the resources of a restored gang."""
        for member in gang.members:
            if member.state not in PLACELESS:
                self._count(member.node, member.need, 1)

    def members_moved(self, gang: Gang, move: Move) -> None:
        """Count the resources that members now hold or no longer hold."""
        for index, before, node in zip(move.indexes, move.before, move.nodes, strict=True):
            member = gang.members[index]
            held, holds = before not in PLACELESS, member.state not in PLACELESS
            if held and not holds:
                self._count(node, member.need, -1)
            elif holds and not held:
                self._count(member.node, member.need, 1)
            elif holds and node != member.node:
                self._count(node, member.need, -1)
                self._count(member.node, member.need, 1)

    def _count(self, node: str, need: dict[str, float], sign: int) -> None:
        held = self._held.setdefault(node, {})
        for name, amount in need.items():
            units = to_units(amount) if name != GPU else self._gpu_units(node, need)
            held[name] = held.get(name, 0) + sign * units
        self._changed[node] = None

    def _gpu_units(self, node: str, need: dict[str, float]) -> int:
        """Return how many units of GPUs a member holds. If the member requests GPU memory, the
        units follow from the memory of the node's cards.
        """
        ask = card_ask({name: to_units(amount) for name, amount in need.items()})
        if ask is None or not ask.memory:
            return to_units(need[GPU])
        total = self._nodes.row(node).total.get(MEMORY, 0.0)
        return ask.count * (ask.units_on(int(total)) or 0)

    def changes(self) -> dict[str, Amounts]:
        """Return the amounts that outside work takes, for the nodes where they may have changed
        since the last call.
        """
        changed, self._changed = self._changed, {}
        found = {}
        for node in changed:
            if self._nodes.is_alive(node):
                found[node] = self.taken(node)
            else:
                self._held.pop(node, None)
        return found

    def taken(self, node_id: str) -> Amounts:
        """Return the resources that outside work takes on a node."""
        row = self._nodes.row(node_id)
        held = self._held.get(node_id, {})
        taken = {}
        for name, total in row.total.items():
            if name in TERMS:
                continue
            free = to_units(row.available.get(name, 0.0))
            units = to_units(total) - free - held.get(name, 0)
            if units > 0:
                taken[name] = from_units(units)
        return batch_amounts(taken)
