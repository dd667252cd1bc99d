"""Placement groups as a node sees them: bundles set aside here, and where the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.model.lifecycle import PENDING, REMOVED
from phalanx.protocol.cluster_messages import (
    Answer,
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    GroupKnown,
    PrepareBundles,
    Prepared,
)
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.engines.embedded.node_shell import NodeShell


class NodeGroups:
    """Does what the control store asks for placement groups."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell

    def look_up(self, group: bytes) -> None:
        """Ask where a group's bundles are, once; `known` follows now and at every change."""
        places = self._shell.leases.groups
        if places.is_known(group):
            return
        places.put(GroupKnown(group, PENDING, [], []))

        def answered(answer: Answer) -> None:
            if answer.result is None:
                self.known(GroupKnown(group, REMOVED, [], []))

        self._shell.control.ask(b"", "watch_group", {"group": group}, answered)

    def known(self, message: GroupKnown) -> None:
        """A group's state or places have changed."""
        self._shell.leases.groups.put(message)
        self._shell.leases.dispatch(self._shell.clock())
        self._shell.plan_soon()

    def prepare(self, message: PrepareBundles) -> None:
        """Set bundles aside, all or none."""
        bundles = {i: ResourceSet.from_mapping(b) for i, b in message.bundles.items()}
        ok = self._shell.bundles.prepare(message.group, message.attempt, bundles, self._shell.clock())
        self._shell.control.tell(Prepared(message.group, message.attempt, ok))

    def commit(self, message: CommitBundles) -> None:
        """What was set aside may be used."""
        ok = self._shell.bundles.commit(message.group, message.attempt)
        self._shell.control.tell(Committed(message.group, message.attempt, ok))
        self._shell.leases.dispatch(self._shell.clock())

    def give_back(self, message: GiveBackBundles) -> None:
        """End what runs in these bundles; when it has, others may have their resources."""
        shell = self._shell
        pools = shell.bundles.give_back(message.group, message.attempt, message.indexes)
        if pools:
            shell.leases.end_in(pools, "its placement group was removed")
        self.settle()

    def settle(self) -> None:
        """Something has ended: bundles that waited for it may be free now."""
        settled = self._shell.bundles.settle()
        for group, attempt in settled:
            self._shell.control.tell(BundlesGone(group, attempt))
        if settled:
            self._shell.report_soon()
            self._shell.leases.dispatch(self._shell.clock())
