"""The placement groups of a node: the bundles that are set aside here, and the places of the other
bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import PENDING, REMOVED
from phalanx.node.bundle_pool import BundlePool
from phalanx.node.bundle_table import BundleTable
from phalanx.node.dispatch import MessageTable
from phalanx.node.group_places import GroupPlaces
from phalanx.node.head_link import HeadLink, ask
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    CommitBundles,
    Committed,
    GiveBackBundles,
    GroupKnown,
    PrepareBundles,
    Prepared,
)
from phalanx.protocol.requests.groups import WatchGroup
from phalanx.scheduler.devices.sets import ResourceSet


class Tenants(Protocol):
    """Owns the work that runs in bundles: tasks and actors, or members of jobs."""

    def warn_in(self, pools: Sequence[BundlePool]) -> None:
        """Warn the work in these bundles that it will be ended after a grace period."""
        ...

    def end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        """End the work in these bundles now."""
        ...


class Leases(Protocol):
    """The part of the lease machine that groups need."""

    @property
    def is_draining(self) -> bool:
        """Whether the node accepts no new work."""
        ...

    def dispatch_in(self, room: bytes | None, now: float) -> None:
        """Dispatch waiting demands. `room`: the group whose demands are dispatched, after its
        bundles were added or removed; None for the demands outside of groups, after bundles became
        free.
        """
        ...

    def end_claim(self, group: GroupId) -> None:
        """Stop keeping room for this gang."""
        ...


class NodeGroups:
    """Carries out the head's orders about placement groups."""

    def __init__(
        self,
        node: bytes,
        clock: Callable[[], float],
        *,
        bundles: BundleTable,
        places: GroupPlaces,
        leases: Leases,
        tenants: Sequence[Tenants],
        head: HeadLink,
        request_plan: Callable[[], None],
        report_changed: Callable[[], None],
        is_port_free: Callable[[int], bool],
    ) -> None:
        """`node`: the id of the node's own process. `request_plan` requests a new plan of
        spillback, which chooses the nodes that are asked for workers. `report_changed` is called
        when bundles become free, because the head waits for that. `is_port_free`: whether a server
        could listen on a port, at any address of this machine.
        """
        self._node = node
        self._clock = clock
        self._bundles = bundles
        self._places = places
        self._leases = leases
        self._tenants = tenants
        self._head = head
        self._request_plan = request_plan
        self._report_changed = report_changed
        self._is_port_free = is_port_free
        self._ending: list[tuple[float, list[BundlePool]]] = []
        """Bundles that were given back, each with the time when the work that still runs in it is
        ended.
        """

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's messages about groups."""
        table.on(PrepareBundles, self.prepare)
        table.on(CommitBundles, self.commit)
        table.on(GiveBackBundles, self.give_back)
        table.on(GroupKnown, self.known)

    def look_up(self, group: GroupId) -> None:
        """Ask the head, one time only, on which nodes the bundles of a group are. The head answers,
        and reports every later change, by a message that `known` handles.
        """
        if self._places.is_known(group):
            return
        self._places.put(GroupKnown(group, PENDING, [], []))
        self._watch(group)

    def head_joined(self) -> None:
        """Ask about all groups again, because the head may be another one and messages may have
        been lost.
        """
        for group in self._places.watched():
            self._watch(group)

    def _watch(self, group: GroupId) -> None:
        def answered(is_there: Callable[[], bool]) -> None:
            if not is_there():
                self.known(GroupKnown(group, REMOVED, [], []))

        ask(self._head, self._node, WatchGroup(group), answered)

    def known(self, message: GroupKnown) -> None:
        """Store a group's new state and places. Look again at the demands that wait for the group,
        and request a new plan of spillback.
        """
        self._places.put(message)
        self._leases.dispatch_in(message.group, self._clock())
        self._request_plan()

    def prepare(self, message: PrepareBundles) -> None:
        """Set bundles aside, all or none. The bundles may use the room that is kept for their
        gang.
        """
        self._leases.end_claim(message.group)
        self.settle()  # the head must learn what is free before it learns who gets it next
        bundles = {i: ResourceSet.from_mapping(b) for i, b in message.bundles.items()}
        busy = [port for port in message.ports if not self._is_port_free(port)]
        ok = not (busy or self._leases.is_draining) and self._bundles.prepare(
            message.group, message.attempt, bundles, self._clock()
        )
        held = self._bundles.devices(message.group, bundles) if ok else {}
        self._head.notify(Prepared(message.group, message.attempt, ok, held, busy))

    def commit(self, message: CommitBundles) -> None:
        """Make the bundles of an attempt usable."""
        ok = self._bundles.commit(message.group, message.attempt)
        for index, gang in message.gangs.items():
            for pool in self._bundles.pools((message.group, index)):
                pool.gang = gang
        self._head.notify(Committed(message.group, message.attempt, ok))
        self._leases.dispatch_in(message.group, self._clock())

    def give_back(self, message: GiveBackBundles) -> None:
        """End the work in these bundles. After it has ended, `settle` reports the bundles as
        free.
        """
        pools = self._bundles.give_back(message.group, message.attempt, message.indexes)
        if pools and (message.grace_s or message.warn):
            self._ending.append((self._clock() + message.grace_s, pools))
            if message.warn:
                for tenants in self._tenants:
                    tenants.warn_in(pools)
        elif pools:
            self._end_in(pools, "its placement group was removed")

    def _end_in(self, pools: Sequence[BundlePool], reason: str) -> None:
        for tenants in self._tenants:
            tenants.end_in(pools, reason)

    def tick(self, now: float) -> None:
        """End the work whose grace period is over."""
        for until, pools in [one for one in self._ending if now >= one[0]]:
            self._ending.remove((until, pools))
            self._end_in(pools, "it did not end in time")

    def settle(self) -> bool:
        """Report the bundles that were given back and are free now. Returns whether there were any.

        One report covers all of them, so a single call for many bundles is enough.
        """
        settled = self._bundles.settle()
        if not settled:
            return False
        # The report of free resources goes first. Otherwise the head would count the bundles' room
        # as used by others.
        self._report_changed()
        for group, attempt in settled:
            self._head.notify(BundlesGone(group, attempt))
        self._leases.dispatch_in(None, self._clock())
        return True
