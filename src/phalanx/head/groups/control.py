"""Carries out the effects of the table of placement groups: messages to nodes, writes, and
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phalanx.head.groups.give_backs import Ending
from phalanx.head.groups.record import Group, KnownGroup
from phalanx.head.groups.table import GroupTable
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore
from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import CREATED, REMOVED
from phalanx.protocol.bundle_messages import (
    CommitBundles,
    GiveBackBundles,
    GroupKnown,
    PrepareBundles,
)
from phalanx.protocol.requests.request import LATER, Asker, Later
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes


class GroupWatchers:
    """Reports changes of groups to nodes that keep a copy, and to processes that wait for a
    group.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._watchers: dict[GroupId, dict[bytes, None]] = {}
        self._waiters: dict[GroupId, list[Asker[bool]]] = {}
        self._freed_waiters: dict[GroupId, list[Asker[None]]] = {}

    def watch(self, group: KnownGroup, prefix: bytes) -> None:
        """Send a node the state of a group, now and whenever it changes."""
        if group.state != REMOVED:
            self._watchers.setdefault(group.group, {})[prefix] = None
        self._outbox.send(prefix, _known(group))

    def wait(self, group: KnownGroup | None, asker: Asker[bool]) -> bool | Later:
        """Return whether work that waits for the group may run in it. If that is not known yet, the
        answer follows later.
        """
        if group is None or group.state == REMOVED:
            return False
        if group.has_begun:
            return True
        self._waiters.setdefault(group.group, []).append(asker)
        return LATER

    def when_freed(self, group: GroupId, asker: Asker[None]) -> None:
        """Answer once all resources of a removed group are free."""
        self._freed_waiters.setdefault(group, []).append(asker)

    def changed(self, group: KnownGroup) -> None:
        """Report a group whose places or state have changed."""
        watchers = self._watchers.get(group.group)
        if watchers:
            known = _known(group)
            for prefix in watchers:
                self._outbox.send(prefix, known)
        if group.state == REMOVED:
            self._watchers.pop(group.group, None)
        if group.group in self._waiters and (group.has_begun or group.state == REMOVED):
            for asker in self._waiters.pop(group.group):
                asker.reply(group.has_begun)

    def freed(self, group: GroupId) -> None:
        """Reply to the processes that wait until a removed group has freed its resources."""
        for asker in self._freed_waiters.pop(group, ()):
            asker.reply(None)


class GroupControl(GroupWatchers):
    """Carries out the effects that `GroupTable` asks for."""

    def __init__(
        self,
        outbox: Outbox,
        state_store: StateStore,
        cluster: ClusterNodes,
        created: Callable[[], None],
    ) -> None:
        """`created` is called when a group is created, because actors may be waiting for its
        bundles.
        """
        super().__init__(outbox)
        self._state_store = state_store
        self._created = created
        self.table = GroupTable(cluster, self)

    # ---- effects -----------------------------------------------------------------------------

    def prepare(
        self, node_id: str, group: GroupId, number: int, bundles: Mapping[int, ResourceSet]
    ) -> None:
        """Ask the node to set bundles aside."""
        amounts = {i: bundle.to_mapping() for i, bundle in bundles.items()}
        self._outbox.send_node(node_id, PrepareBundles(group, number, amounts))

    def commit(self, node_id: str, group: GroupId, number: int) -> None:
        """Ask the node to keep the bundles of an attempt."""
        self._outbox.send_node(node_id, CommitBundles(group, number))

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        self._state_store.when_written(action)

    def give_back(
        self, node_id: str, group: GroupId, attempt: int, indexes: list[int], ending: Ending
    ) -> None:
        """Order the node to free bundles."""
        message = GiveBackBundles(group, attempt, indexes, ending.warn, ending.grace_s)
        self._outbox.order(node_id, message)

    def changed(self, group: KnownGroup) -> None:
        """Store the group and report it. If it has been created, notify waiting actors."""
        if isinstance(group, Group):
            self._state_store.put_group(group)
        super().changed(group)
        if group.state == CREATED:
            self._created()


def _known(group: KnownGroup) -> GroupKnown:
    bundles = [bundle.to_mapping() for bundle in group.bundles]
    return GroupKnown(group.group, group.state, bundles, list(group.nodes), group.infeasible)
