"""Sends nodes the requests for a gang's bundles, and shows the gang as a placement group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import ENDED, HAVING, HELD, ON_THE_WAY, PLACING
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.head.groups.control import GroupControl
from phalanx.head.groups.give_backs import Ending
from phalanx.head.outbox import Outbox
from phalanx.head.state_store import StateStore
from phalanx.model.ids import GangId, GroupId
from phalanx.model.lifecycle import CREATED, PENDING, PREPARED, REMOVED, RESCHEDULING
from phalanx.protocol.bundle_messages import CommitBundles, GiveBackBundles, PrepareBundles
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes


class GangGroup:
    """A view of a gang as a placement group. The view stores nothing; every answer is read from the
    members.
    """

    name = ""
    strategy = "PACK"
    infeasible = ""

    def __init__(self, gang: Gang, remove: Callable[[Gang], None]) -> None:
        self.gang = gang
        self._remove = remove
        self._bundles: list[ResourceSet] = []

    @property
    def group(self) -> GangId:
        """The id of the gang's group."""
        return self.gang.gang_id

    @property
    def bundles(self) -> Sequence[ResourceSet]:
        """The resources of each member."""
        for member in self.gang.members[len(self._bundles) :]:
            self._bundles.append(ResourceSet.from_mapping(member.need))
        return self._bundles

    @property
    def nodes(self) -> Sequence[str]:
        """The node of each member's bundle; empty if the bundle is not confirmed."""
        unconfirmed = set(self.unconfirmed)
        return [
            member.node if member.state in HAVING or index in unconfirmed else ""
            for index, member in enumerate(self.gang.members)
        ]

    @property
    def unconfirmed(self) -> Sequence[int]:
        """The members whose bundles are set aside by a node but not confirmed yet."""
        return self.gang.within(ON_THE_WAY) if self.gang.is_prepared else ()

    @property
    def state(self) -> str:
        """The state of the group, by Ray's names of the states of placement groups."""
        gang = self.gang
        if gang.is_removed or gang.is_prepared:
            return REMOVED if gang.is_removed else PREPARED
        if gang.started is None:
            return PENDING
        has_lost_all = gang.waits and not gang.count(*HAVING)
        return RESCHEDULING if self.is_under_way or has_lost_all else CREATED

    @property
    def is_under_way(self) -> bool:
        """Whether any member is on its way to a place."""
        return any(member.state in ON_THE_WAY for member in self.gang.members)

    @property
    def has_begun(self) -> bool:
        """Whether enough members have their places or have ended. A gang that loses a node while it
        is being placed has not begun, and its other members give their places back.
        """
        gang = self.gang
        if gang.started is None or gang.is_removed:
            return False
        here = sum(m.state == HELD or m.state in ENDED for m in gang.members)
        return here >= gang.min_members

    def remove(self, now: float) -> None:
        """Remove the gang."""
        self._remove(self.gang)


class BundleOrders:
    """Carries out the orders of the gang binder: sends each order to its node, updates the head's
    view of the node's free resources, and publishes the gang's group.
    """

    def __init__(
        self,
        outbox: Outbox,
        state_store: StateStore,
        cluster: ClusterNodes,
        groups: GroupControl,
        rendezvous: Rendezvous,
        remove: Callable[[Gang], None],
    ) -> None:
        """`remove` ends a gang when its group is removed."""
        self._outbox = outbox
        self._state_store = state_store
        self._cluster = cluster
        self._groups = groups
        self._rendezvous = rendezvous
        self._remove = remove
        self._shown: dict[bytes, GangGroup] = {}
        self._last: dict[bytes, tuple[object, ...]] = {}
        """The values of each gang that were published last."""

    def prepare(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Ask the node to set bundles aside, and count them as taken from now on."""
        for index in indexes:
            need = ResourceSet.from_mapping(gang.members[index].need)
            self._cluster.count_in(node_id, need, True)
        bundles = {index: gang.members[index].need for index in indexes}
        # The ports of the gang may already be in use by its own members.
        ports = [] if gang.count(HELD) else gang.ports
        self._outbox.send_node(node_id, PrepareBundles(gang.gang_id, number, bundles, ports))

    def commit(self, gang: Gang, number: int, node_id: str, indexes: Sequence[int]) -> None:
        """Ask the node to commit bundles. Members of jobs get the view of their gang together with
        their commands.
        """
        new = [index for index in indexes if gang.members[index].state == PLACING]
        views = {} if gang.job else self._rendezvous.views(gang, new)
        self._outbox.send_node(node_id, CommitBundles(gang.gang_id, number, views))

    def give_back(
        self, node_id: str, group: GroupId, number: int, indexes: list[int], ending: Ending
    ) -> None:
        """Order the node to free bundles."""
        message = GiveBackBundles(group, number, indexes, ending.warn, ending.grace_s)
        self._outbox.order(node_id, message)

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        self._state_store.when_written(action)

    def changed(self, gang: Gang) -> None:
        """Publish the gang's group if it has changed since it was last published."""
        shown = self._shown.get(gang.gang_id)
        if shown is None:
            shown = self._shown[gang.gang_id] = GangGroup(gang, self._remove)
            self._groups.table.show(shown)
        looks = (shown.state, shown.has_begun, *shown.nodes)
        if self._last.get(gang.gang_id) != looks:
            self._last[gang.gang_id] = looks
            self._groups.changed(shown)

    def over(self, gang: Gang) -> None:
        """Forget a gang that no longer holds anything."""
        self._shown.pop(gang.gang_id, None)
        self._last.pop(gang.gang_id, None)
        self._groups.table.hide(gang.gang_id)
        self._groups.freed(gang.gang_id)
