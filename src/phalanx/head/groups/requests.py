"""Answers requests about placement groups."""

from __future__ import annotations

from phalanx.head.clock import Clock
from phalanx.head.groups.control import GroupControl
from phalanx.head.groups.record import Group
from phalanx.model.options import check_amounts
from phalanx.observe.state.columns import Row
from phalanx.protocol.requests.groups import (
    CreateGroup,
    GetNamedGroup,
    ListGroups,
    NamedGroup,
    RemoveGroup,
    WaitGroup,
    WatchGroup,
)
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later
from phalanx.scheduler.devices.sets import ResourceSet


class GroupRequests:
    """The handlers of requests about placement groups."""

    def __init__(self, groups: GroupControl, clock: Clock) -> None:
        self._groups = groups
        self._table = groups.table
        self._clock = clock

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            CreateGroup.handled_by(self._create_group),
            WatchGroup.handled_by(self._watch_group),
            WaitGroup.handled_by(self._wait_group),
            RemoveGroup.handled_by(self._remove_group),
            ListGroups.handled_by(self._list_groups),
            GetNamedGroup.handled_by(self._get_named_group),
        ]

    def _create_group(self, asker: Asker[None], request: CreateGroup) -> None:
        if self._table.get(request.group) is not None:
            return  # the nodes ask again when the head has come back
        for bundle in request.bundles:
            check_amounts(bundle)
        self._table.create(
            Group(
                group=request.group,
                name=request.name,
                strategy=request.strategy,
                bundles=[ResourceSet.from_mapping(b) for b in request.bundles],
                creator=asker.process,
                detached=request.detached,
                selectors=request.selectors,
                soft_target=request.soft_target,
                namespace=request.namespace,
            ),
            self._clock.now(),
        )

    def _watch_group(self, asker: Asker[bool], request: WatchGroup) -> bool:
        found = self._table.get(request.group)
        if found is not None:
            self._groups.watch(found, asker.node)
        return found is not None

    def _wait_group(self, asker: Asker[bool], request: WaitGroup) -> bool | Later:
        return self._groups.wait(self._table.get(request.group), asker)

    def _remove_group(self, asker: Asker[None], request: RemoveGroup) -> Later:
        self._groups.when_freed(request.group, asker)
        if self._table.remove(request.group, self._clock.now()) is None:
            self._groups.freed(request.group)
        return LATER

    def _list_groups(self, asker: Asker[list[Row]], request: ListGroups) -> list[Row]:
        return self._table.table()

    def _get_named_group(self, asker: Asker[NamedGroup], request: GetNamedGroup) -> NamedGroup:
        group = self._table.named(request.namespace, request.name)
        if group is None:
            raise ValueError(f"Failed to look up placement group with name: {request.name}")
        return NamedGroup(group.group, [bundle.to_mapping() for bundle in group.bundles])
