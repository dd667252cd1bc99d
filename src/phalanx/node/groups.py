"""Placement groups on one node: all bundles or none, in order of creation, their states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from phalanx.node.bundles import BundlePool
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet

PENDING, CREATED, REMOVED = "PENDING", "CREATED", "REMOVED"


class Group(msgspec.Struct, kw_only=True, eq=False):
    """One placement group."""

    group: bytes
    name: str
    strategy: str
    bundles: list[ResourceSet]
    creator: bytes
    detached: bool
    state: str = PENDING
    pools: list[BundlePool] = []
    infeasible: str = ""


class GroupTable:
    """All placement groups that this node knows."""

    def __init__(self, resources: NodeResources) -> None:
        self._resources = resources
        self._groups: dict[bytes, Group] = {}

    def create(self, group: Group) -> None:
        """Register a group; `place` reserves it when there is room."""
        self._groups[group.group] = group
        group.infeasible = self._infeasible(group)

    def place(self) -> list[Group]:
        """Reserve every pending group that fits now, in order of creation; those created."""
        created = []
        for group in self._groups.values():
            if group.state != PENDING or group.infeasible:
                continue
            taken = []
            for bundle in group.bundles:
                allocation = self._resources.acquire(bundle)
                if allocation is None:
                    break
                taken.append(allocation)
            if len(taken) < len(group.bundles):
                for allocation in taken:
                    self._resources.release(allocation)
                continue
            group.pools = [BundlePool(a) for a in taken]
            group.state = CREATED
            created.append(group)
        return created

    def remove(self, group_id: bytes) -> Group | None:
        """Mark the group removed. Its reservation goes back with `release`."""
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            return None
        group.state = REMOVED
        return group

    def release(self, group: Group) -> None:
        """Give a removed group's reservation back, once nothing runs in it."""
        for pool in group.pools:
            self._resources.release(pool.reservation)
        group.pools = []

    def get(self, group_id: bytes) -> Group | None:
        """The group with this id."""
        return self._groups.get(group_id)

    def named(self, name: str) -> Group | None:
        """The living group with this name."""
        for group in self._groups.values():
            if group.name == name and group.state != REMOVED:
                return group
        return None

    def of_creator(self, creator: bytes) -> list[Group]:
        """Living groups that go with their creator."""
        return [
            g
            for g in self._groups.values()
            if g.creator == creator and not g.detached and g.state != REMOVED
        ]

    def pools(self, place: tuple[bytes, int]) -> Iterator[BundlePool]:
        """The bundles that (group, index) may use; all of them for index -1."""
        group_id, index = place
        group = self._groups.get(group_id)
        if group is None or group.state != CREATED:
            return
        if index >= 0:
            yield group.pools[index]
        else:
            # One bundle serves all of a task's resources (Ray may mix bundles by resource).
            yield from group.pools

    def refusal(self, place: tuple[bytes, int], request: ResourceSet) -> tuple[str, str] | None:
        """(reason, class of error) when tasks of this place can never run."""
        group_id, index = place
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            return ("its placement group was removed", "TaskPlacementGroupRemoved")
        if index >= len(group.bundles):
            count = len(group.bundles)
            return (f"its placement group has {count} bundles and no number {index}", "ValueError")
        chosen: Sequence[ResourceSet] = group.bundles if index < 0 else [group.bundles[index]]
        if not any(request.is_subset(bundle) for bundle in chosen):
            return (f"no bundle of the placement group holds {request.to_mapping()}", "ValueError")
        if group.infeasible:
            return (f"its placement group waits: {group.infeasible}", "")
        return None

    def table(self, node_id: str) -> list[dict[str, Any]]:
        """Rows for people."""
        return [
            {
                "placement_group_id": g.group.hex(),
                "name": g.name,
                "bundles": {i: b.to_mapping() for i, b in enumerate(g.bundles)},
                "bundles_to_node_id": dict.fromkeys(
                    range(len(g.bundles)), node_id if g.state == CREATED else ""
                ),
                "strategy": g.strategy,
                "state": g.state,
                "stats": {"scheduling_state": _scheduling_state(g)},
            }
            for g in self._groups.values()
        ]

    def forget_removed(self, keep: int = 1000) -> None:
        """Drop the oldest removed groups beyond `keep`."""
        removed = [g for g in self._groups.values() if g.state == REMOVED]
        for group in removed[: max(len(removed) - keep, 0)]:
            del self._groups[group.group]

    def _infeasible(self, group: Group) -> str:
        if group.strategy == "STRICT_SPREAD" and len(group.bundles) > 1:
            return f"STRICT_SPREAD needs {len(group.bundles)} nodes and there is one"
        asked = ResourceSet()
        for bundle in group.bundles:
            asked = asked + bundle
        total = ResourceSet.from_mapping(self._resources.total())
        if not asked.is_subset(total):
            lacking = {k: v for k, v in asked.to_mapping().items() if asked[k] > total.get(k, 0)}
            has = {k: total.to_mapping().get(k, 0) for k in lacking}
            return f"it asks for {lacking} in all and the node has {has}"
        return ""


def _scheduling_state(group: Group) -> str:
    if group.state != PENDING:
        return "FINISHED" if group.state == CREATED else "REMOVED"
    return "INFEASIBLE" if group.infeasible else "NO_RESOURCES"
