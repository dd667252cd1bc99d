"""Placement groups as a node sees them: bundles set aside here, and where the others are."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.model.ids import node_process_id
from phalanx.model.lifecycle import PENDING, REMOVED
from phalanx.node.bundles import BundlePool
from phalanx.node.control_link import ask
from phalanx.protocol.cluster_messages import (
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    GroupKnown,
    PrepareBundles,
    Prepared,
)
from phalanx.protocol.requests.groups import WatchGroup
from phalanx.resources.instances import NodeResources
from phalanx.resources.sets import ResourceSet

if TYPE_CHECKING:
    from phalanx.node.host import BundleHost


OF_GROUPS = (PrepareBundles, CommitBundles, GiveBackBundles, GroupKnown)


class NodeGroups:
    """Does what the control store asks for placement groups."""

    def __init__(self, shell: BundleHost) -> None:
        self._shell = shell
        self._gangs: dict[BundlePool, bytes] = {}
        """What the member in each bundle is told of its gang."""
        self._ending: list[tuple[float, list[BundlePool]]] = []
        """Bundles that were given back, and when what still runs in them is ended."""

    def on_control(self, message: Any) -> None:
        """The control store says something of a group."""
        match message:
            case PrepareBundles():
                self.prepare(message)
            case CommitBundles():
                self.commit(message)
            case GiveBackBundles():
                self.give_back(message)
            case GroupKnown():
                self.known(message)

    def look_up(self, group: bytes) -> None:
        """Ask where a group's bundles are, once; `known` follows now and at every change."""
        places = self._shell.leases.groups
        if places.is_known(group):
            return
        places.put(GroupKnown(group, PENDING, [], []))
        self._watch(group)

    def joined(self) -> None:
        """The control store may be another one, and may have told what did not arrive here."""
        for group in self._shell.leases.groups.watched():
            self._watch(group)

    def _watch(self, group: bytes) -> None:
        def answered(is_there: Callable[[], bool]) -> None:
            if not is_there():
                self.known(GroupKnown(group, REMOVED, [], []))

        ask(self._shell.control, node_process_id(self._shell.prefix), WatchGroup(group), answered)

    def known(self, message: GroupKnown) -> None:
        """A group's state or places have changed."""
        self._shell.leases.groups.put(message)
        self._shell.leases.dispatch(self._shell.clock())
        self._shell.plan_soon()

    def prepare(self, message: PrepareBundles) -> None:
        """Set bundles aside, all or none."""
        bundles = {i: ResourceSet.from_mapping(b) for i, b in message.bundles.items()}
        shell = self._shell
        table = shell.bundles
        busy = [port for port in message.ports if not self._is_free(port)]
        ok = not (busy or shell.leases.is_draining) and table.prepare(
            message.group, message.attempt, bundles, shell.clock()
        )
        held = table.devices(message.group, bundles) if ok else {}
        shell.control.tell(Prepared(message.group, message.attempt, ok, held, busy))

    def _is_free(self, port: int) -> bool:
        """Whether a server could listen there, on any address of this machine."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return False
        return True

    def commit(self, message: CommitBundles) -> None:
        """What was set aside may be used."""
        ok = self._shell.bundles.commit(message.group, message.attempt)
        for index, gang in message.gangs.items():
            for pool in self._shell.bundles.pools((message.group, index)):
                self._gangs[pool] = gang
        self._shell.control.tell(Committed(message.group, message.attempt, ok))
        self._shell.leases.dispatch(self._shell.clock())

    def give_back(self, message: GiveBackBundles) -> None:
        """End what runs in these bundles; when it has, others may have their resources."""
        shell = self._shell
        pools = shell.bundles.give_back(message.group, message.attempt, message.indexes)
        for pool in pools:
            self._gangs.pop(pool, None)
        if pools and (message.grace_s or message.warn):  # who is preempted is told so first
            self._ending.append((self._shell.clock() + message.grace_s, pools))
            if message.warn:
                shell.leases.warn_in(pools)
                shell.members.warn_in(pools)
        elif pools:
            shell.members.end_in(pools)
            shell.leases.end_in(pools, "its placement group was removed")
        self.settle()

    def tick(self, now: float) -> None:
        """End what has not ended within its grace."""
        for until, pools in [one for one in self._ending if now >= one[0]]:
            self._ending.remove((until, pools))
            self._shell.members.end_in(pools)
            self._shell.leases.end_in(pools, "it did not end in time")

    def gang_of(self, pool: NodeResources | BundlePool) -> bytes:
        """What whoever runs in a bundle is told of its gang; empty outside gangs."""
        return self._gangs.get(pool, b"") if isinstance(pool, BundlePool) else b""

    def settle(self) -> None:
        """Something has ended: bundles that waited for it may be free now."""
        settled = self._shell.bundles.settle()
        if settled:
            self._shell.report_soon()  # first: else their room would seem to be taken by others
        for group, attempt in settled:
            self._shell.control.tell(BundlesGone(group, attempt))
        if settled:
            self._shell.leases.dispatch(self._shell.clock())
