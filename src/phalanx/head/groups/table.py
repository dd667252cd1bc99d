"""The cluster's placement groups: every bundle on a node, or none, and again when nodes die.

A group is placed by attempts. The nodes that the strategy picks are asked to prepare; when all
have, they are told to commit, and when all have confirmed, the group is created. Requests are
repeated until they are answered, so a lost message costs time and no resources.

Unlike Ray's, where one group is placed at a time, a group that finds no room never keeps those
behind it from being tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from phalanx.errors import TaskPlacementGroupRemoved
from phalanx.head.groups.choice import pick_nodes
from phalanx.head.groups.give_backs import AT_ONCE, RESEND_S, Ending, GiveBacks
from phalanx.head.groups.record import Attempt, Group, GroupRow, is_first_in_line, restored
from phalanx.model.lifecycle import CREATED, GROUP, PREPARED, REMOVED, RESCHEDULING, move
from phalanx.policies.bundles.request import BundleRejection, BundleRequest, BundlesPlaced
from phalanx.protocol.wire_errors import code_of
from phalanx.resources.sets import ResourceSet
from phalanx.scheduling.cluster_nodes import ClusterNodes

KEEP_REMOVED = 1_000


class GroupEffects(Protocol):
    """What the table asks of its shell. Any of it may be answered before it returns."""

    def prepare(
        self, node_id: str, group: bytes, attempt: int, bundles: dict[int, ResourceSet]
    ) -> None:
        """Have the node set these bundles aside, all or none; `prepared` follows."""
        ...

    def when_written(self, action: Callable[[], None]) -> None:
        """Do something once all that has changed so far is stored."""
        ...

    def may_begin(self, group: Group) -> bool:
        """Whether the attempt that all nodes have prepared is to go on."""
        ...

    def commit(self, node_id: str, group: bytes, attempt: int) -> None:
        """Have the node keep what the attempt reserved; `committed` follows."""
        ...

    def give_back(
        self, node_id: str, group: bytes, attempt: int, indexes: list[int], ending: Ending
    ) -> None:
        """Have the node end these bundles; `returned` follows when they are free."""
        ...

    def changed(self, group: Group) -> None:
        """Its state is another: to be stored and told to who waits for it."""
        ...

    def freed(self, group: bytes) -> None:
        """All that a removed or pinned group was told to give back is free."""
        ...

    def refused(self, group: Group) -> None:
        """A pinned group could not be placed as it was told; what was reserved goes back."""
        ...


class GroupTable:
    """All placement groups of the cluster."""

    def __init__(self, cluster: ClusterNodes, effects: GroupEffects) -> None:
        self._cluster = cluster
        self._effects = effects
        self._groups: dict[bytes, Group] = {}
        self._names: dict[str, bytes] = {}
        self._unsettled: dict[bytes, Group] = {}
        """Those whose bundles do not all have nodes that keep them."""
        self._removed: deque[bytes] = deque()
        self.give_backs = GiveBacks(effects.give_back)
        self._hopeless: dict[BundleRequest, BundleRejection] = {}
        """What found no room since resources came free the last time."""
        self._order = 0
        self._is_trying = False
        self._is_stale = False

    # ---- what people ask for -----------------------------------------------------------------

    def create(self, group: Group, now: float) -> None:
        """Register a group and try to place it.

        Raises ValueError for a name that is taken and for what no cluster could place.
        """
        if group.name and group.name in self._names:
            raise ValueError(f"The placement group name {group.name!r} is taken.")
        group.nodes = [""] * len(group.bundles)
        if group.selectors and len(group.selectors) != len(group.bundles):
            raise ValueError(
                f"bundle_label_selector has {len(group.selectors)} selectors for "
                f"{len(group.bundles)} bundles."
            )
        if not group.is_pinned:
            group.request()
        self._order += 1
        group.order = self._order
        self._add(group)
        self._effects.changed(group)
        if self._is_trying:
            self._is_stale = True
        elif group.group in self._unsettled:
            self._try(group, now)  # those before it are not tried: nothing came free for them

    def remove(self, group_id: bytes, now: float) -> Group | None:
        """End a group: its bundles go back, and what runs in them ends. None: there is none."""
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            return None
        held = {node: group.indexes_on(node) for node in group.nodes if node}
        attempt = group.attempt
        if attempt is not None and group.state != PREPARED:
            for node in attempt.asked:
                held[node] = [*held.get(node, ()), *attempt.bundles[node]]
        group.attempt = None
        group.attempt_number += 1  # no attempt of it is alive after this
        group.nodes = [""] * len(group.bundles)
        group.unconfirmed = []
        self._names.pop(group.name, None)
        self._unsettled.pop(group_id, None)
        self._removed.append(group_id)
        if len(self._removed) > KEEP_REMOVED:
            del self._groups[self._removed.popleft()]
        self._move(group, REMOVED)
        for node, indexes in held.items():
            self.give_backs.ask(node, group_id, group.attempt_number, indexes, now)
        if not held and group_id not in self.give_backs:
            self._effects.freed(group_id)
        return group

    def place(self, group_id: bytes, choice: Mapping[int, str], now: float) -> bool:
        """Have nodes keep these bundles of a pinned group, all or none: `changed` follows once it
        is created, or `refused`. False: it is gone, or on its way already."""
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED or group.attempt is not None:
            return False
        if group.state == CREATED:
            self._move(group, RESCHEDULING)
        self._unsettled[group_id] = group
        self._start(group, choice, None, now)
        return True

    def release(
        self, group_id: bytes, indexes: Iterable[int], now: float, ending: Ending = AT_ONCE
    ) -> None:
        """Take the nodes of these bundles of a pinned group away, while no attempt is under way."""
        group = self._groups[group_id]
        assert group.attempt is None, "what is on its way is released when it has arrived"
        group.attempt_number += 1  # an answer to an earlier release is none to this one
        held: dict[str, list[int]] = {}
        for index in indexes:
            if group.nodes[index]:
                held.setdefault(group.nodes[index], []).append(index)
                group.put(index, "")
        for node, given in held.items():
            self.give_backs.ask(node, group_id, group.attempt_number, given, now, ending)
        self._effects.changed(group)

    def creator_gone(self, creator: bytes, now: float) -> None:
        """A process ended: its groups go, unless they are detached."""
        for group in list(self._groups.values()):
            if group.creator == creator and not group.detached:
                self.remove(group.group, now)

    def get(self, group_id: bytes) -> Group | None:
        """The group with this id, removed ones included for a while."""
        return self._groups.get(group_id)

    def named(self, name: str) -> Group | None:
        """The living group with this name."""
        group_id = self._names.get(name)
        return None if group_id is None else self._groups[group_id]

    def table(self) -> list[dict[str, Any]]:
        """Rows for people."""
        return [group.facts() for group in self._groups.values()]

    def nodes_of(self, group_id: bytes, index: int = -1) -> list[str]:
        """The nodes that keep the bundle, or any of the group's for -1."""
        group = self._groups.get(group_id)
        if group is None:
            return []
        return group.nodes_of(index)

    def refusal(self, place: tuple[bytes, int], request: ResourceSet) -> tuple[str, str] | None:
        """(reason, code of an error or "" when it may wait) when tasks of this place cannot run."""
        group_id, index = place
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED:
            return ("its placement group was removed", code_of(TaskPlacementGroupRemoved))
        return group.refusal(index, request)

    # ---- what nodes say ----------------------------------------------------------------------

    def prepared(self, node_id: str, group_id: bytes, number: int, ok: bool, now: float) -> None:
        """A node has set its bundles of the attempt aside, or has no room for them."""
        group = self._awaited(node_id, group_id, number)
        if group is None or group.state == PREPARED:
            return
        attempt = group.attempt
        assert attempt is not None
        if not ok:
            self._abandon(group, now, but=node_id)
            if not group.is_pinned:
                group.back_off(now, is_refused=True)
            return
        attempt.awaiting.discard(node_id)
        if attempt.awaiting:
            return
        for node, bundles in attempt.bundles.items():
            for index in bundles:
                group.put(index, node)
                group.unconfirmed.append(index)
        group.domain = attempt.domain
        attempt.awaiting = set(attempt.bundles)
        attempt.resend_at = float("inf")
        self._move(group, PREPARED)
        # The next head has to go on with what nodes were told to keep.
        self._effects.when_written(lambda: self._ask(group, attempt, now))

    def committed(self, node_id: str, group_id: bytes, number: int, ok: bool, now: float) -> None:
        """A node keeps its bundles of the attempt, or had given them back already."""
        group = self._awaited(node_id, group_id, number)
        if group is None or group.state != PREPARED:
            return
        attempt = group.attempt
        assert attempt is not None
        attempt.awaiting.discard(node_id)
        if not ok:
            for index in attempt.bundles[node_id]:
                group.put(index, "")
        self._settle(group, now)

    def returned(self, node_id: str, group_id: bytes, number: int) -> None:
        """What the node was told to give back with that attempt is free."""
        if self.give_backs.done(node_id, group_id, number):
            self._tell_freed(group_id)

    def resources_changed(self, now: float) -> None:
        """Something came free, or a node joined. To be called once for many news."""
        self._hopeless.clear()
        self._try_all(now, at_once=True)

    def node_gone(self, node_id: str, now: float) -> None:
        """A node is dead, and gone from the view: bundles that were there are placed anew."""
        for group_id in self.give_backs.node_gone(node_id):
            self._tell_freed(group_id)
        for group in list(self._groups.values()):
            if group.state != REMOVED:
                self._lose(group, node_id, group.indexes_on(node_id), now)
        self.resources_changed(now)

    def inventory(
        self,
        node_id: str,
        held: Iterable[tuple[bytes, int, int, bool]],
        ended: Mapping[bytes, int],
        now: float,
    ) -> None:
        """A node joined, for the first time or again: compare what it holds with what it should.

        `held`: (group, bundle index, attempt, whether it is committed); `ended`: the last attempt
        of each group that ended there. What nobody knows of goes back; what is missing is lost;
        what is to be given back anyway is told again, with the grace that it has.
        """
        kept: set[tuple[bytes, int]] = set()
        unknown: dict[tuple[bytes, int], list[int]] = {}
        for group_id, index, number, is_committed in held:
            group = self._groups.get(group_id)
            if group is not None:
                group.attempt_number = max(group.attempt_number, number)
            if group is not None and group.keeps(index, node_id, number, is_committed):
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
                lost = [index for index in on_it if (group.group, index) not in kept]
                if lost:
                    self._lose(group, "", lost, now)
        self.resources_changed(now)

    def tick(self, now: float) -> None:
        """Repeat what was not answered; try again what has waited for long enough."""
        for group in list(self._unsettled.values()):
            if group.attempt is not None and now >= group.attempt.resend_at:
                self._ask(group, group.attempt, now)
        self.give_backs.tick(now)
        if any(g.attempt is None and now >= g.retry_at for g in self._unsettled.values()):
            self._hopeless.clear()
            self._try_all(now, at_once=False)

    def restore(self, rows: Iterable[GroupRow], now: float) -> None:
        """Know again what the head knew before it restarted; the nodes are restored before.

        What was created stays; what was on its way goes on.
        """
        for row in rows:
            if row.state == REMOVED:
                continue
            self._order += 1
            group = restored(row, self._order, now)
            self._add(group)
            if group.state == CREATED:
                self._unsettled.pop(group.group, None)
            self._settle(group, now)
        known = self._cluster.view.nodes.row_of
        for group in list(self._groups.values()):
            for node in [n for n in dict.fromkeys(group.nodes) if n and n not in known]:
                self._lose(group, node, group.indexes_on(node), now)
        self._try_all(now, at_once=True)

    # ---- attempts ----------------------------------------------------------------------------

    def _try_all(self, now: float, at_once: bool) -> None:
        self._is_stale = True
        if self._is_trying:
            return  # an effect brought news: the loop below looks again
        self._is_trying = True
        try:
            while self._is_stale:
                self._is_stale = False
                for group in sorted(self._unsettled.values(), key=is_first_in_line):
                    is_due = now >= group.retry_at or (at_once and not group.is_refused)
                    if is_due and group.group in self._unsettled and group.attempt is None:
                        self._try(group, now)
                at_once = True
        finally:
            self._is_trying = False

    def _try(self, group: Group, now: float) -> None:
        if group.infeasible and group.shape == self._cluster.shape:
            return
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
        bundles: dict[str, dict[int, ResourceSet]] = {}
        for index, node in chosen.items():
            bundles.setdefault(node, {})[index] = group.bundles[index]
            self._cluster.count_in(node, group.bundles[index], True)
        group.infeasible = group.waits_for = ""
        group.attempt_number += 1
        group.attempt = Attempt(
            number=group.attempt_number,
            bundles=bundles,
            domain=domain,
            resend_at=now + RESEND_S,
            awaiting=set(bundles),
        )
        self._send(group, group.attempt)

    def _ask(self, group: Group, attempt: Attempt, now: float) -> None:
        """Ask who has not answered; what is prepared goes on only while it is to begin."""
        if group.attempt is not attempt:
            return
        attempt.resend_at = now + RESEND_S
        if group.state != PREPARED or self._effects.may_begin(group):
            self._send(group, attempt)
            return
        for node in [node for node in attempt.bundles if node in attempt.awaiting]:
            for index in attempt.bundles[node]:
                group.put(index, "")
            self.give_backs.ask(node, group.group, attempt.number, [*attempt.bundles[node]], now)
        attempt.awaiting.clear()
        self._settle(group, now)

    def _send(self, group: Group, attempt: Attempt) -> None:
        """Ask every node of the attempt that has not answered."""
        is_committing = group.state == PREPARED
        for node in attempt.bundles:
            # An answer that came at once may have ended the attempt, or moved it on.
            if group.attempt is not attempt or (group.state == PREPARED) is not is_committing:
                return
            if node not in attempt.awaiting:
                continue
            if is_committing:
                self._effects.commit(node, group.group, attempt.number)
                continue
            if node not in attempt.asked:
                attempt.asked.append(node)
            self._effects.prepare(node, group.group, attempt.number, dict(attempt.bundles[node]))

    def _awaited(self, node_id: str, group_id: bytes, number: int) -> Group | None:
        """The group whose attempt waits for this answer; None when it is not wanted any more."""
        group = self._groups.get(group_id)
        attempt = None if group is None else group.attempt
        if attempt is None or attempt.number != number or node_id not in attempt.awaiting:
            return None
        return group

    def _abandon(self, group: Group, now: float, but: str) -> None:
        """End the attempt: who prepared, or may have, gives back. `but`: has nothing to give."""
        attempt, group.attempt = group.attempt, None
        assert attempt is not None
        for node in attempt.asked:
            if node != but:
                indexes = list(attempt.bundles[node])
                self.give_backs.ask(node, group.group, attempt.number, indexes, now)
        if group.is_pinned:
            self._unsettled.pop(group.group, None)
            self._effects.refused(group)
            if group.state == RESCHEDULING and group.attempt is None:
                self._move(group, CREATED)  # as far as it was before, and is told of losses again

    def _settle(self, group: Group, now: float) -> None:
        """When every node has confirmed: the group is created, or some bundles are lost again."""
        if group.attempt is None or group.attempt.awaiting:
            return
        group.attempt = None
        group.unconfirmed = []
        group.backoff_s = group.retry_at = 0.0
        group.is_refused = False
        if group.missing() and not group.is_pinned:
            self._move(group, RESCHEDULING)
            self._try_all(now, at_once=True)
        else:
            del self._unsettled[group.group]
            self._move(group, CREATED)

    def _lose(self, group: Group, node_id: str, indexes: list[int], now: float) -> None:
        """These bundles have no node any more; `node_id`, if given, will answer nothing."""
        for index in indexes:
            group.put(index, "")
        attempt = group.attempt
        if group.state == PREPARED:
            assert attempt is not None
            attempt.awaiting.discard(node_id)
            self._settle(group, now)
        elif attempt is not None and (node_id in attempt.bundles or (group.is_pinned and indexes)):
            # Who pinned the others to their nodes counted on what is lost, for a minimum perhaps.
            self._abandon(group, now, but=node_id)
        elif group.is_pinned and indexes:
            self._effects.changed(group)
        elif group.state == CREATED and indexes:
            self._unsettled[group.group] = group
            self._move(group, RESCHEDULING)

    # ---- state store -----------------------------------------------------------------------

    def _add(self, group: Group) -> None:
        self._groups[group.group] = group
        if not group.is_pinned or group.state == PREPARED:
            self._unsettled[group.group] = group
        if group.name:
            self._names[group.name] = group.group

    def _tell_freed(self, group_id: bytes) -> None:
        group = self._groups.get(group_id)
        if group is None or group.state == REMOVED or group.is_pinned:
            self._effects.freed(group_id)

    def _move(self, group: Group, state: str) -> None:
        story = f"group {group.group.hex()} ({group.name}), attempt {group.attempt_number}"
        group.state = move(GROUP, "placement group", group.state, state, story)
        self._effects.changed(group)
