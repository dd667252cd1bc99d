"""The placement groups that a node knows: the state of each, and the nodes of its bundles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.model.ids import BundleId, GroupId
from phalanx.model.lifecycle import PREPARED, REMOVED, RESCHEDULING
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.protocol.bundle_messages import GroupKnown
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.strategies import WHOLE_GROUP

KEEP = 10_000
"""The number of groups that a node remembers."""


class GroupPlaces:
    """The groups about which processes of this node have asked. The head reports every change of
    these groups.
    """

    def __init__(self, node_id: str, bundles: BundleTable) -> None:
        self._node_id = node_id
        self._bundles = bundles
        self._known: dict[GroupId, GroupKnown] = {}
        self._sizes: dict[GroupId, list[ResourceSet]] = {}
        """The resources of each group's bundles, converted once, because each check of a waiting
        demand needs them.
        """

    def put(self, known: GroupKnown) -> None:
        """Store the head's news about a group."""
        self._known.pop(known.group, None)
        self._known[known.group] = known
        self._sizes[known.group] = [ResourceSet.from_mapping(b) for b in known.bundles]
        if len(self._known) > KEEP:
            oldest = next(iter(self._known))
            del self._known[oldest], self._sizes[oldest]

    def is_known(self, group: GroupId) -> bool:
        """Whether the head was asked about this group."""
        return group in self._known

    def watched(self) -> list[GroupId]:
        """Return the groups whose changes the head must report."""
        return [group for group, known in self._known.items() if known.state != REMOVED]

    def nodes_of(self, place: BundleId) -> list[str]:
        """Return the other nodes with a bundle that work in `place` may use. `place` is (group,
        index); a negative index stands for all bundles of the group.
        """
        group, index = place
        known = self._known.get(group)
        if known is None or self._is_held_up(place):
            return []
        return sorted({node for node in _placed(known, index) if node != self._node_id})

    def pools(self, place: BundleId) -> Iterator[BundlePool]:
        """Yield this node's bundles that work in `place` may use."""
        return iter(()) if self._is_held_up(place) else self._bundles.pools(place)

    def _is_held_up(self, place: BundleId) -> bool:
        """Whether work that may run in any bundle of the group must wait, because a lost bundle is
        being placed again, or because some nodes have not confirmed their bundles.
        """
        group, index = place
        known = self._known.get(group)
        waits = (PREPARED, RESCHEDULING)
        return index == WHOLE_GROUP and known is not None and known.state in waits

    def refusal(self, place: BundleId, request: ResourceSet) -> tuple[str, str] | None:
        """Return (reason, code of an error) if tasks cannot run in the group; the code is "" if
        they may wait. None if they can run.
        """
        group_id, index = place
        known = self._known.get(group_id)
        if known is None:
            # The demand is from an owner on another node.
            return self._bundles.refusal(place, request)
        if known.state == REMOVED:
            return ("its placement group was removed", code_of(TaskPlacementGroupRemoved))
        if not known.bundles:
            return None  # the head will soon report where the group's bundles are
        if index >= len(known.bundles):
            count = len(known.bundles)
            reason = f"its placement group has {count} bundles and no number {index}"
            return (reason, code_of(ValueError))
        bundles = self._sizes[group_id]
        chosen: Sequence[ResourceSet] = bundles if index < 0 else [bundles[index]]
        if not any(request.is_subset(bundle) for bundle in chosen):
            reason = f"no bundle of the placement group holds {request.to_mapping()}"
            return (reason, code_of(ValueError))
        if known.waits_for and (index == WHOLE_GROUP or not _placed(known, index)):
            return (f"its placement group waits: {known.waits_for}", "")
        return None


def _placed(known: GroupKnown, index: int) -> list[str]:
    """Return the nodes of bundle `index`, or of all bundles for a negative index.

    A group that has lost some of its bundles still has the remaining bundles.
    """
    nodes = known.nodes if index < 0 else known.nodes[index : index + 1]
    return [node for node in nodes if node]
