"""The cluster's placement groups. All bundles of a group are on nodes, or none is. Bundles are
placed again when their nodes die.

A group is placed by attempts (`two_phase_commit`, which gangs use, too) on the nodes that its
strategy picks; when an attempt is settled, the group is created. A group without room never blocks
the groups after it, unlike in Ray, which places one group at a time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.head.groups.choice import pick_nodes
from phalanx.head.groups.give_backs import Ending, GiveBacks
from phalanx.head.groups.record import (
    Group,
    GroupRow,
    KnownGroup,
    facts,
    nodes_of,
    refusal,
    restored,
    settling_order,
)
from phalanx.head.groups.two_phase_commit import Attempt, Attempts
from phalanx.model.ids import AttemptId, BundleId, GroupId
from phalanx.model.lifecycle import CREATED, GROUP, PREPARED, REMOVED, RESCHEDULING, move
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.request import (
    BundleRejection,
    BundleRequest,
    BundlesPlaced,
)
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes

KEEP_REMOVED = 1_000


class GroupEffects(Protocol):
    """Requests that the table makes to its shell. The answer to a request may arrive before the
    method returns.
    """

    def prepare(
        self, node_id: str, group: GroupId, attempt: int, bundles: Mapping[int, ResourceSet]
    ) -> None:
        """Ask the node to set these bundles aside, all or none. The answer goes to
        `Attempts.prepared`.
        """
        ...

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        ...

    def commit(self, node_id: str, group: GroupId, attempt: int) -> None:
        """Ask the node to keep the bundles that the attempt reserved. The answer goes to
        `Attempts.committed`.
        """
        ...

    def give_back(
        self, node_id: str, group: GroupId, attempt: int, indexes: list[int], ending: Ending
    ) -> None:
        """Ask the node to end these bundles. `GroupTable.returned` is called when they are free."""
        ...

    def changed(self, group: Group) -> None:
        """Store a group whose state has changed, and report the group to its watchers."""
        ...

    def freed(self, group: GroupId) -> None:
        """Report that all resources of a removed group are free."""
        ...


class PinnedGroup(KnownGroup, Protocol):
    """A group whose places the table does not decide; see `GroupTable.show`."""

    def remove(self, now: float) -> None:
        """Remove the group on request."""
        ...


class GroupTable:
    """All placement groups of a cluster."""

    def __init__(self, cluster: ClusterNodes, effects: GroupEffects) -> None:
        self._cluster = cluster
        self._effects = effects
        self._groups: dict[GroupId, Group] = {}
        self._pinned: dict[GroupId, PinnedGroup] = {}
        self._names: dict[tuple[str, str], GroupId] = {}
        self._unsettled: dict[GroupId, Group] = {}
        """The groups with bundles that no node holds yet."""
        self._removed: deque[GroupId] = deque()
        self.give_backs = GiveBacks(effects.give_back)
        self.attempts = Attempts(self, self.give_backs)
        self._hopeless: dict[BundleRequest, BundleRejection] = {}
        """The requests that have found no room since resources last became free."""
        self._order = 0
        self._is_trying = False
        self._is_stale = False

    # ---- requests of programs ----------------------------------------------------------------

    def create(self, group: Group, now: float) -> None:
        """Register a group and try to place it.

        Raises ValueError if the name is taken, and for an impossible strategy, selector or bundle.
        """
        group.asked_at = now
        if group.name and (group.namespace, group.name) in self._names:
            raise ValueError(f"The placement group name {group.name!r} is taken.")
        group.nodes = [""] * len(group.bundles)
        if group.selectors and len(group.selectors) != len(group.bundles):
            raise ValueError(
                f"bundle_label_selector has {len(group.selectors)} selectors for "
                f"{len(group.bundles)} bundles."
            )
        group.request()
        self._order += 1
        group.order = self._order
        self._add(group)
        self._effects.changed(group)
        if self._is_trying:
            self._is_stale = True
        elif group.group in self._unsettled:
            # Groups that came earlier are not tried again, because no resources became free for
            # them.
            self._try(group, now)

    def remove(self, group_id: GroupId, now: float) -> KnownGroup | None:
        """End a group: its bundles are given back, and work in them ends. Returns None if the group
        does not exist.
        """
        pinned = self._pinned.get(group_id)
        if pinned is not None and pinned.state != REMOVED:
            pinned.remove(now)
            return pinned
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            return None
        held = group.held()
        attempt = self.attempts.call_off(group_id)
        if attempt is not None and not attempt.is_committing:
            for node in attempt.asked:
                held[node] = [*held.get(node, ()), *attempt.bundles[node]]
        group.attempt_number += 1  # from here on, no attempt of the group has begun
        group.nodes = [""] * len(group.bundles)
        group.unconfirmed = []
        group.is_under_way = False
        self._names.pop((group.namespace, group.name), None)
        self._unsettled.pop(group_id, None)
        self._move(group, REMOVED)
        self._remember_removed(group_id)
        if held:
            self.give_backs.ask_all(held, group_id, group.attempt_number, now)
        if not held and group_id not in self.give_backs:
            self._effects.freed(group_id)
        return group

    def creator_gone(self, creator: bytes, now: float) -> None:
        """Remove the groups whose creator has ended, except for detached groups."""
        for group in list(self._groups.values()):
            if group.creator == creator and not group.detached:
                self.remove(group.group, now)

    def creators(self) -> list[bytes]:
        """Return the creators of groups that are not detached. A group is removed when its creator
        has ended.
        """
        return [group.creator for group in self._groups.values() if not group.detached]

    def get(self, group_id: GroupId) -> KnownGroup | None:
        """Return the group with this id. Removed groups remain known for a while."""
        return self._groups.get(group_id) or self._pinned.get(group_id)

    def named(self, namespace: str, name: str) -> Group | None:
        """Return the living group with this name."""
        group_id = self._names.get((namespace, name))
        return None if group_id is None else self._groups[group_id]

    def table(self) -> list[dict[str, Any]]:
        """Return all groups' rows for listings."""
        return [facts(group) for group in (*self._groups.values(), *self._pinned.values())]

    def counts(self) -> dict[str, int]:
        """Return the number of groups in each state, including recently removed groups."""
        return dict(Counter(one.state for one in (*self._groups.values(), *self._pinned.values())))

    def waiting_bundles(self) -> Iterator[ResourceSet]:
        """Yield each bundle without a node of the groups that are not removed."""
        for group in self._unsettled.values():
            for index in group.missing():
                yield group.bundles[index]

    def nodes_of(self, group_id: GroupId, index: int = -1) -> list[str]:
        """Return the node that keeps the bundle; for index -1, the nodes that keep any bundle of
        the group.
        """
        group = self.get(group_id)
        return [] if group is None else nodes_of(group, index)

    def refusal(self, place: BundleId, request: ResourceSet) -> tuple[str, str] | None:
        """Return why tasks in this place cannot run, as (reason, code of an error); None if they
        can run. If the tasks may wait, the code is "".
        """
        group_id, index = place
        group = self.get(group_id)
        if group is None or group.state == REMOVED:
            return ("its placement group was removed", code_of(TaskPlacementGroupRemoved))
        return refusal(group, index, request)

    # ---- groups whose places are not decided by the table --------------------------------------

    def show(self, group: PinnedGroup) -> None:
        """Make visible a group whose places the table does not decide. The table does nothing else
        with the group.
        """
        self._pinned[group.group] = group

    def hide(self, group_id: GroupId) -> None:
        """Note that a group that `show` made visible was removed. Like other removed groups, it
        stays visible for a while.
        """
        self._remember_removed(group_id)

    # ---- news of nodes -----------------------------------------------------------------------

    def returned(self, node_id: str, group_id: GroupId, number: int) -> None:
        """Note that the node has freed the bundles that it was asked to free with this number."""
        if self.give_backs.done(node_id, group_id, number):
            self._freed(group_id)

    def resources_changed(self, now: float) -> None:
        """Try groups again after resources became free or a node joined. Call this once for all
        such news.
        """
        self._hopeless.clear()
        self._try_all(now, at_once=True)

    def node_gone(self, node_id: str, now: float) -> None:
        """Place the bundles of a dead node again. The node must already be removed from the head's
        view of the nodes.
        """
        for group_id in self.give_backs.node_gone(node_id):
            self._freed(group_id)
        for group in list(self._groups.values()):
            if group.state != REMOVED:
                self._lose(group, group.indexes_on(node_id))
        self.attempts.node_gone(node_id, now)
        self.resources_changed(now)

    def inventory(
        self,
        node_id: str,
        held: Iterable[tuple[GroupId, int, int, bool]],
        ended: Mapping[GroupId, int],
        now: float,
    ) -> None:
        """Compare the bundles of a node that joined, for the first time or again, with the groups.

        `held`: each bundle on the node as (group, index, attempt, whether it is committed), without
        the bundles of gangs. `ended`: for each group, the last attempt that ended there. The node
        gives back bundles that no group knows. Bundles that the node should have but does not have
        are lost. Requests to give bundles back are repeated, with their grace period.
        """
        kept: set[BundleId] = set()
        unknown: dict[AttemptId, list[int]] = {}
        for group_id, index, number, is_committed in held:
            group = self._groups.get(group_id)
            if group is not None:
                group.attempt_number = max(group.attempt_number, number)
            if group is not None and self._keeps(group, index, node_id, number, is_committed):
                kept.add((group_id, index))
            elif not self.give_backs.is_asked(node_id, group_id, number, index):
                unknown.setdefault((group_id, number), []).append(index)
        for group_id, number in ended.items():
            group = self._groups.get(group_id)
            if group is not None:
                group.attempt_number = max(group.attempt_number, number)
        for (group_id, number), indexes in unknown.items():
            self.give_backs.ask(node_id, group_id, number, indexes, now)
        for group in list(self._groups.values()):
            if group.state != REMOVED:
                on_it = [i for i in group.indexes_on(node_id) if i not in group.unconfirmed]
                self._lose(group, [index for index in on_it if (group.group, index) not in kept])
        self.resources_changed(now)

    def tick(self, now: float) -> None:
        """Repeat the unanswered requests, and try groups again that have waited long enough."""
        self.attempts.tick(now)
        self.give_backs.tick(now)
        if any(not g.is_under_way and now >= g.retry_at for g in self._unsettled.values()):
            self._hopeless.clear()
            self._try_all(now, at_once=False)

    def restore(self, rows: Iterable[GroupRow], now: float) -> None:
        """Restore what the head knew before it restarted. Nodes must have been restored before.

        Created groups stay created, and attempts in progress continue.
        """
        for row in rows:
            if row.state == REMOVED:
                continue
            self._order += 1
            group, attempt = restored(row, self._order)
            self._add(group)
            if group.state == CREATED:
                self._unsettled.pop(group.group, None)
            if attempt is not None:
                group.is_under_way = True
                self.attempts.resume(attempt, now)
        known = self._cluster.view.nodes.row_of
        for node in dict.fromkeys(n for group in self._groups.values() for n in group.nodes):
            if node and node not in known:
                for group in list(self._groups.values()):
                    self._lose(group, group.indexes_on(node))
                self.attempts.node_gone(node, now)
        self._try_all(now, at_once=True)

    # ---- attempts ----------------------------------------------------------------------------

    def _try_all(self, now: float, at_once: bool) -> None:
        self._is_stale = True
        if self._is_trying:
            return  # called from an effect of the loop below, which then runs once more
        self._is_trying = True
        try:
            while self._is_stale:
                self._is_stale = False
                for group in sorted(self._unsettled.values(), key=settling_order):
                    is_due = now >= group.retry_at or (at_once and not group.is_refused)
                    if is_due and group.group in self._unsettled:
                        self._try(group, now)
                at_once = True
        finally:
            self._is_trying = False

    def _try(self, group: Group, now: float) -> None:
        if group.is_under_way:
            return
        if group.infeasible and group.shape == self._cluster.shape:
            return
        group.tries += 1
        request = group.request()
        outcome = self._hopeless.get(request) or pick_nodes(self._cluster, request)
        if isinstance(outcome, BundlesPlaced):
            chosen = dict(zip(group.missing(), outcome.nodes, strict=True))
            self._start(group, chosen, outcome.domain, now)
            return
        self._hopeless[request] = outcome
        group.shape = self._cluster.shape
        group.waits_for = (not outcome.turned_away and outcome.detail) or str(outcome)
        group.infeasible = group.waits_for if outcome.reason == "infeasible" else ""
        group.back_off(now, is_refused=False)

    def _start(
        self, group: Group, chosen: Mapping[int, str], domain: str | None, now: float
    ) -> None:
        bundles: dict[str, list[int]] = {}
        for index, node in chosen.items():
            bundles.setdefault(node, []).append(index)
            self._cluster.count_in(node, group.bundles[index], True)
        group.infeasible = group.waits_for = ""
        group.attempt_number += 1
        group.is_under_way = True
        attempt = Attempt(
            group=group.group, number=group.attempt_number, bundles=bundles, domain=domain
        )
        self.attempts.begin(attempt, now)

    def prepare(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to set aside its bundles of this attempt."""
        group = self._groups[attempt.group]
        bundles = {index: group.bundles[index] for index in attempt.bundles[node_id]}
        self._effects.prepare(node_id, attempt.group, attempt.number, bundles)

    def commit(self, attempt: Attempt, node_id: str) -> None:
        """Ask the node to keep its bundles of this attempt."""
        self._effects.commit(node_id, attempt.group, attempt.number)

    def when_written(self, action: Callable[[], None]) -> None:
        """Run an action once all changes so far are stored."""
        self._effects.when_written(action)

    def on_prepared(self, attempt: Attempt, now: float) -> None:
        """Store the nodes of the group, which have all set the group's bundles aside."""
        group = self._groups[attempt.group]
        for index, node in attempt.kept.items():
            group.put(index, node)
            group.unconfirmed.append(index)
        group.domain = attempt.domain
        self._move(group, PREPARED)

    def may_begin(self, attempt: Attempt) -> bool:
        """Return True: unlike a gang, a group has no minimum that it may have lost in the
        meantime.
        """
        return True

    def on_refused(self, attempt: Attempt, now: float) -> None:
        """Delay the next try after an attempt failed."""
        group = self._groups[attempt.group]
        group.is_under_way = False
        group.back_off(now, is_refused=True)

    def on_settled(self, attempt: Attempt, now: float) -> None:
        """Create the group, or try again if some bundles were lost."""
        group = self._groups[attempt.group]
        for node in attempt.lost:
            for index in attempt.bundles[node]:
                group.put(index, "")
        group.unconfirmed = []
        group.is_under_way = False
        group.backoff_s = group.retry_at = 0.0
        group.is_refused = False
        if group.missing():
            self._move(group, RESCHEDULING)
            self._try_all(now, at_once=True)
        else:
            del self._unsettled[group.group]
            if group.created_after_s is None and group.asked_at is not None:
                group.created_after_s = now - group.asked_at
            self._move(group, CREATED)

    def _lose(self, group: Group, indexes: list[int]) -> None:
        for index in indexes:
            group.put(index, "")
        if group.state == CREATED and indexes:
            self._unsettled[group.group] = group
            self._move(group, RESCHEDULING)

    def _keeps(
        self, group: Group, index: int, node_id: str, number: int, is_committed: bool
    ) -> bool:
        """Return whether the node should keep this bundle, which attempt `number` reserved.
        `is_committed`: whether the node has committed the bundle, and not only prepared it.
        """
        if group.state == REMOVED or index >= len(group.bundles):
            return False
        attempt = self.attempts.get(group.group)
        if attempt is not None and attempt.number == number:
            return index in attempt.bundles.get(node_id, ())
        return group.nodes[index] == node_id and is_committed

    # ---- state store -------------------------------------------------------------------------

    def _add(self, group: Group) -> None:
        self._groups[group.group] = group
        self._unsettled[group.group] = group
        if group.name:
            self._names[group.namespace, group.name] = group.group

    def _remember_removed(self, group_id: GroupId) -> None:
        self._removed.append(group_id)
        if len(self._removed) > KEEP_REMOVED:
            oldest = self._removed.popleft()
            self._groups.pop(oldest, None)
            self._pinned.pop(oldest, None)

    def _freed(self, group_id: GroupId) -> None:
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            self._effects.freed(group_id)

    def _move(self, group: Group, state: str) -> None:
        context = f"group {group.group.hex()} ({group.name}), attempt {group.attempt_number}"
        group.state = move(GROUP, "placement group", group.state, state, context)
        self._effects.changed(group)
