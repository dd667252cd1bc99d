"""What the table of placement groups asks for: said to nodes, written down, told to who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx.head.groups.give_backs import Ending
from phalanx.head.groups.record import Group
from phalanx.model.lifecycle import CREATED, REMOVED
from phalanx.protocol.cluster_messages import (
    CommitBundles,
    GiveBackBundles,
    GroupKnown,
    PrepareBundles,
)
from phalanx.protocol.requests.request import LATER, Asker, Later
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane


class GroupControl:
    """Does what `GroupTable` asks for."""

    def __init__(self, shell: ControlPlane) -> None:
        self._shell = shell
        self._watchers: dict[bytes, dict[bytes, None]] = {}
        self._waiters: dict[bytes, list[Asker[bool]]] = {}
        self._freed_waiters: dict[bytes, list[Asker[None]]] = {}

    # ---- effects -----------------------------------------------------------------------------

    def prepare(
        self, node_id: str, group: bytes, attempt: int, bundles: dict[int, ResourceSet]
    ) -> None:
        """See GroupEffects."""
        amounts = {i: bundle.to_mapping() for i, bundle in bundles.items()}
        batch = self._shell.gangs_if_used
        ports = [] if batch is None else batch.applier.ports_on(group)
        self._shell.send_node(node_id, PrepareBundles(group, attempt, amounts, ports))

    def when_written(self, action: Callable[[], None]) -> None:
        """See GroupEffects."""
        self._shell.state_store.when_written(action)

    def may_begin(self, group: Group) -> bool:
        """See GroupEffects."""
        batch = self._shell.gangs_if_used
        return not group.is_pinned or batch is None or batch.applier.may_begin(group)

    def commit(self, node_id: str, group: bytes, attempt: int) -> None:
        """See GroupEffects."""
        batch = self._shell.gangs_if_used
        gangs = {} if batch is None else batch.applier.told(group, node_id)
        self._shell.send_node(node_id, CommitBundles(group, attempt, gangs))

    def give_back(
        self, node_id: str, group: bytes, attempt: int, indexes: list[int], ending: Ending
    ) -> None:
        """See GroupEffects."""
        message = GiveBackBundles(group, attempt, indexes, ending.warn, ending.grace_s)
        self._shell.order(node_id, message)

    def changed(self, group: Group) -> None:
        """See GroupEffects."""
        self._shell.state_store.put_group(group)
        self._tell(group)
        if group.state == CREATED:
            self._shell.group_created()
        batch = self._shell.gangs_if_used
        if group.is_pinned and batch is not None:
            batch.applier.group_changed(group)
        has_begun = self._has_begun(group)
        if has_begun or group.state == REMOVED:
            for asker in self._waiters.pop(group.group, ()):
                asker.reply(has_begun)

    def _has_begun(self, group: Group) -> bool:
        """Whether what waits for the group may run in it: not in a gang of which a node was lost
        on the way, so that the others give their places back."""
        batch = self._shell.gangs_if_used
        if group.state != CREATED or not group.is_pinned or batch is None:
            return group.state == CREATED
        return batch.applier.is_whole(group.group)

    def refused(self, group: Group) -> None:
        """See GroupEffects."""
        batch = self._shell.gangs_if_used
        if batch is not None:
            batch.applier.group_refused(group)

    def _tell(self, group: Group) -> None:
        watchers = self._watchers.get(group.group)
        if watchers:
            known = _known(group)
            for prefix in watchers:
                self._shell.send(prefix, known)
        if group.state == REMOVED:
            self._watchers.pop(group.group, None)

    def freed(self, group: bytes) -> None:
        """See GroupEffects."""
        for asker in self._freed_waiters.pop(group, ()):
            asker.reply(None)
        batch = self._shell.gangs_if_used
        if batch is not None:
            batch.applier.group_freed(group)

    # ---- who waits ---------------------------------------------------------------------------

    def watch(self, group: Group, prefix: bytes) -> None:
        """A node wants to know all about a group, now and whenever it changes."""
        if group.state != REMOVED:
            self._watchers.setdefault(group.group, {})[prefix] = None
        self._shell.send(prefix, _known(group))

    def wait(self, group: Group | None, asker: Asker[bool]) -> bool | Later:
        """Whether what waits for the group may run in it; the answer comes when that is known."""
        if group is None or group.state == REMOVED:
            return False
        if self._has_begun(group):
            return True
        self._waiters.setdefault(group.group, []).append(asker)
        return LATER

    def when_freed(self, group: bytes, asker: Asker[None]) -> None:
        """Answer once nothing of a group that is removed is taken any more."""
        self._freed_waiters.setdefault(group, []).append(asker)


def _known(group: Group) -> GroupKnown:
    bundles = [bundle.to_mapping() for bundle in group.bundles]
    return GroupKnown(group.group, group.state, bundles, list(group.nodes), group.infeasible)
