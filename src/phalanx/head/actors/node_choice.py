"""Chooses nodes for new actors, and better nodes for actors that are still waiting.

An actor goes to its owner's node if that node has room, and otherwise to the node that its strategy
picks. If no node has room now, the actor goes to the node that is expected to have room first. For
an actor that holds no resources while it runs, a random node replaces the owner's node. If the
policy is not the default one, the policy chooses in all cases. A choice is a hint: each node itself
decides whether it has room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phalanx.errors import ActorUnschedulableError
from phalanx.head.actors.table import ActorRecord
from phalanx.head.groups.table import GroupTable
from phalanx.model.gpu_sharing import MEMORY, TERMS, few_cards_text, lacking_text
from phalanx.model.ids import GroupId, group_id_of
from phalanx.model.rows.explanation import amounts_text
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.devices.quantities import from_units
from phalanx.scheduler.devices.sets import EMPTY, ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity
from phalanx.scheduler.placement.bundles.slots import PlacedBundle, pick_bundle
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes
from phalanx.scheduler.placement.entry import pick_node, placement_strategy
from phalanx.scheduler.placement.labels import ANY_NODE, LabelCondition, LabelSelector
from phalanx.scheduler.placement.outcome import Outcome, Placed, Rejection
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.selector.tried import TriedPlaces
from phalanx.scheduler.placement.spread import Spread
from phalanx.scheduler.placement.strategies import selectors_of
from phalanx.scheduler.placement.strategy import Asking, Strategy
from phalanx.scheduler.placement.terms import affinity_of

NODE_ID = "ray.io/node-id"
"""The label that names a node."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The node chosen for an actor.

    Without a `node`, the actor waits, and `reason` says why. With a `code`, the actor can never be
    placed, and its calls fail with the error of that code.
    """

    node: str = ""
    is_available: bool = False
    bundle: int = -1
    """The index of the bundle that the actor uses, if the actor belongs to a placement group."""
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    record: ActorRecord
    owner_node: str
    node: str
    has_room: bool
    """Whether the node seemed to have room for the actor when the actor was sent there."""


class ActorNodeChoice:
    """Chooses nodes for actors, and keeps track of the actors that are still waiting."""

    def __init__(
        self,
        cluster: ClusterNodes,
        groups: GroupTable,
        rng: RandomSource,
        placement: PlacementPolicy,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._rng = rng
        self._default = placement_strategy(placement, cluster.waiting)
        self._waits_anywhere = placement.starts_here_first
        self._tried = TriedPlaces[bytes]() if placement.policy == "selector" else None
        self._spread = Spread()
        self._homes: dict[bytes, tuple[bytes, str]] = {}
        """The job and the node of each actor that was sent to a node."""
        self._waiting: dict[bytes, _Waiting] = {}
        self._inside: dict[bytes, tuple[bytes, int, ResourceSet]] = {}
        """For each actor that was counted into a bundle: the group, the index of the bundle, and
        the amounts that the actor takes there.
        """
        self._full: dict[bytes, frozenset[str]] = {}
        """For each actor: the nodes that refused it, because they already run their largest number
        of actors.
        """

    def place(
        self, record: ActorRecord, owner_node: str, now: float, full: frozenset[str] = frozenset()
    ) -> Choice:
        """Return the node where the actor goes now. The actor counts as waiting until `placed` or
        `forget` is called. `owner_node`: "" if the owner's node is unknown. `full`: nodes that
        already run their largest number of actors.
        """
        self.forget(record.actor)
        if full:
            self._full[record.actor] = full
        choice = self._pick(record, owner_node, now, require_available=False)
        if not choice.code:
            waiting = _Waiting(
                record=record,
                owner_node=owner_node,
                node=choice.node,
                has_room=choice.is_available,
            )
            self._keep(waiting, choice, now)
        return choice

    def elsewhere(
        self, record: ActorRecord, full_node: str, owner_node: str, now: float
    ) -> Choice | None:
        """Return another node for an actor whose node already runs its largest number of actors;
        None if no other node is suitable.
        """
        wire = record.strategy
        if wire.get("group") is not None or (wire.get("node_id") and not wire.get("soft")):
            return None
        full = self._full.get(record.actor, frozenset()) | {full_node}
        choice = self.place(record, owner_node, now, full)
        return choice if choice.node else None

    def placed(self, actor: bytes) -> None:
        """Note that the actor has a worker and no longer waits."""
        self._waiting.pop(actor, None)
        self._full.pop(actor, None)
        if self._tried is not None:
            self._tried.forget(actor)

    def forget(self, actor: bytes) -> None:
        """Forget an actor that needs no node any more."""
        self.placed(actor)
        self._inside.pop(actor, None)
        self._homes.pop(actor, None)

    def why(self, record: ActorRecord, owner_node: str, now: float) -> Outcome | str:
        """Return the outcome of the actor's strategy among the nodes with room now. If its strategy
        is invalid or a placement group decides, return a sentence that says why the actor waits.
        """
        place = ResourceSet.from_mapping(record.place)
        if record.strategy.get("group") is not None:
            return self._in_group(record, place).reason or "it waits for room in its bundle"
        try:
            tiers, chosen = selectors_of(record.strategy), self._strategy(record.strategy)
        except ValueError as error:
            return str(error)
        return self._outcome(place, tiers, chosen, self._asking(record, owner_node, now))

    def is_overdue(self, now: float) -> bool:
        """Whether a node that seemed to have room has kept an actor waiting too long."""
        return self._tried is not None and self._tried.is_overdue(now)

    def better(self, now: float) -> list[tuple[ActorRecord, Choice]]:
        """Return the waiting actors that can go to another node with room now, and those that can
        never be placed.

        After resources changed, call this once for all changes. An actor that waits on a node must
        be withdrawn there before it goes elsewhere.
        """
        moves = []
        for actor, waiting in list(self._waiting.items()):
            if self._starts(actor, waiting, now) or self._is_on_the_only_node(waiting):
                continue
            # Otherwise the actor's own claim would count as room that is taken by others.
            inside = self._inside.pop(actor, None)
            choice = self._pick(
                waiting.record, waiting.owner_node, now, require_available=bool(waiting.node)
            )
            is_better = choice.is_available or not waiting.node
            if choice.code:
                self.forget(actor)
            elif choice.node and choice.node != waiting.node and is_better:
                has_room = choice.is_available
                self._keep(replace(waiting, node=choice.node, has_room=has_room), choice, now)
            else:
                if inside is not None:
                    self._inside[actor] = inside
                continue
            moves.append((waiting.record, choice))
        return moves

    def _starts(self, actor: bytes, waiting: _Waiting, now: float) -> bool:
        """Whether the actor's worker may be starting, because the actor's node seemed to have room
        very recently. Such an actor stays where it is, because the selector would count it on both
        nodes.
        """
        if self._tried is None or not waiting.has_room:
            return False
        return waiting.node not in self._tried.of(actor, now)

    def _is_on_the_only_node(self, waiting: _Waiting) -> bool:
        """Whether the actor waits on the cluster's only node, so that no better node exists. False
        for actors in placement groups.
        """
        nodes = self._cluster.view.nodes.states
        is_grouped = waiting.record.strategy.get("group") is not None
        return len(nodes) == 1 and nodes[0].id == waiting.node and not is_grouped

    def _keep(self, waiting: _Waiting, choice: Choice, now: float) -> None:
        record = waiting.record
        self._waiting[record.actor] = waiting
        if not choice.node:
            return
        self._homes[record.actor] = (record.job, choice.node)
        if self._tried is not None:
            place = ResourceSet.from_mapping(record.place)
            self._tried.asked(
                record.actor, {choice.node: place} if choice.is_available else {}, now
            )
        hold = ResourceSet.from_mapping(record.hold)
        if choice.bundle >= 0:
            group = group_id_of(record.strategy["group"])
            self._inside[record.actor] = (group, choice.bundle, hold)
        else:
            self._cluster.count_in(choice.node, hold, choice.is_available)

    def _pick(
        self, record: ActorRecord, owner_node: str, now: float, *, require_available: bool
    ) -> Choice:
        place = ResourceSet.from_mapping(record.place)
        if record.strategy.get("group") is not None:
            return self._in_group(record, place)
        try:
            tiers = [tier & self._not_full(record.actor) for tier in selectors_of(record.strategy)]
            chosen = self._strategy(record.strategy)
        except ValueError as error:
            return Choice(reason=str(error), code=code_of(ActorUnschedulableError))
        if require_available and not self._has_room(place, tiers):
            return Choice()
        asking = self._asking(record, owner_node, now)
        asking = replace(asking, require_available=require_available)
        outcome = self._outcome(place, tiers, chosen, asking)
        if isinstance(outcome, Rejection):
            return self._no(record.strategy, outcome, place, tiers)
        is_bound = isinstance(chosen, NodeAffinity) or not self._waits_anywhere
        if not outcome.is_available and not is_bound:
            outcome = self._least_waiting(place, tiers, asking) or outcome
        return Choice(node=outcome.node, is_available=outcome.is_available)

    def _not_full(self, actor: bytes) -> LabelSelector:
        full = self._full.get(actor)
        if not full:
            return ANY_NODE
        condition = LabelCondition(key=NODE_ID, operator="not in", values=tuple(sorted(full)))
        return LabelSelector((condition,))

    def _asking(self, record: ActorRecord, owner_node: str, now: float) -> Asking:
        first = (self._any_node() if self._waits_anywhere and not record.hold else "") or owner_node
        asking = Asking(local=first or None, preferred=first or None, require_available=True)
        if self._tried is None:
            return asking
        return replace(
            asking,
            tried=self._tried.of(record.actor, now),
            beside=frozenset(node for job, node in self._homes.values() if job == record.job),
        )

    def _any_node(self) -> str:
        """Return a random node that takes work. As in Ray, actors that hold no resources go to
        random nodes: every node has room for them, so they would otherwise all go to their owner's
        node.
        """
        open_nodes = [node.id for node in self._cluster.view.nodes.states if node.is_schedulable]
        return open_nodes[self._rng.randrange(len(open_nodes))] if open_nodes else ""

    def _outcome(
        self,
        place: ResourceSet,
        tiers: Sequence[LabelSelector],
        strategy: Strategy,
        asking: Asking,
    ) -> Outcome:
        return pick_node(
            self._cluster.view,
            Request(resources=place, selector=tiers[0]),
            asking,
            self._rng,
            strategy=strategy,
            fallbacks=tiers[1:],
            creates_actor=True,
        )

    def _has_room(self, place: ResourceSet, tiers: Sequence[LabelSelector]) -> bool:
        """Whether any node has room. This check is cheaper than choosing a node, so it comes
        first.
        """
        requests = (Request(resources=place, selector=selector) for selector in tiers)
        return any(self._cluster.view.of(request).available.any() for request in requests)

    def _strategy(self, wire: Mapping[str, Any]) -> Strategy:
        affinity = affinity_of(wire, self._default)
        if affinity is not None:
            return affinity
        name = wire.get("name", "DEFAULT")
        if name not in ("DEFAULT", "SPREAD"):
            raise ValueError(f"unknown scheduling strategy {name!r}")
        return self._spread if name == "SPREAD" else self._default

    def _least_waiting(
        self, place: ResourceSet, tiers: Sequence[LabelSelector], asking: Asking
    ) -> Placed | None:
        for selector in tiers:
            request = Request(resources=place, selector=selector)
            found = self._cluster.pick_least_wait(request, asking)
            if isinstance(found, Placed):
                return found
        return None

    def _no(
        self,
        wire: Mapping[str, Any],
        no: Rejection,
        place: ResourceSet,
        tiers: Sequence[LabelSelector],
    ) -> Choice:
        """Return a choice without a node, with the reason. The choice has an error code if the
        actor's strategy does not allow waiting.
        """
        nodes = self._cluster.view.nodes
        target = wire.get("node_id")
        if target is not None and not wire.get("soft"):
            row = nodes.row_of.get(target)
            if row is None:
                reason = f"node {target} does not exist or is not alive"
            elif not nodes.states[row].is_schedulable:
                reason = f"node {target} drains"
            elif no.reason == "infeasible":
                reason = f"node {target} can never hold {amounts_text(place.to_mapping())}: {no}"
            else:
                reason = f"node {target} is busy, and the strategy does not let the actor wait"
            return Choice(reason=reason, code=code_of(ActorUnschedulableError))
        alive = [node for node in nodes.states if node.is_schedulable]
        if wire.get("labels") and not any(t.holds(n.labels) for t in tiers for n in alive):
            return Choice(reason=f"no node has labels that match {wire['labels']}")
        has = {name: max((n.total.get(name, 0) for n in alive), default=0) for name in place}
        lacking = {name: from_units(place[name]) for name in place if place[name] > has[name]}
        if not lacking:
            sizes = [node.card_sizes() for node in alive]
            few = few_cards_text(place.to_mapping(), sizes, "the node with the most of them")
            if few:
                return Choice(reason=few, code=code_of(ActorUnschedulableError))
            return Choice(reason=str(no))
        largest = {name: from_units(has[name]) for name in lacking}
        if not TERMS.isdisjoint(lacking):
            # Cards do not grow while an actor waits. Nodes without known cards tell nothing.
            is_known = any(MEMORY in node.total for node in alive)
            code = code_of(ActorUnschedulableError) if is_known else ""
            return Choice(reason=lacking_text(lacking, largest, "the largest node"), code=code)
        asks, most = amounts_text(lacking), amounts_text(largest)
        return Choice(reason=f"it asks for {asks} and the largest node has {most}")

    def _in_group(self, record: ActorRecord, place: ResourceSet) -> Choice:
        """Return the node of a bundle that the actor may use: the first bundle in which other
        actors leave room.
        """
        group_id, index = (
            group_id_of(record.strategy["group"]),
            record.strategy["bundle"],
        )
        refusal = self._groups.refusal((group_id, index), place)
        if refusal is not None:
            reason, code = refusal
            return Choice(reason=reason, code=code)
        group = self._groups.get(group_id)
        assert group is not None
        there = [
            (at, node)
            for at, node in enumerate(group.nodes)
            if node and index in (-1, at) and at not in group.unconfirmed
        ]
        slots = [
            PlacedBundle(
                node=node,
                total=group.bundles[at],
                available=group.bundles[at] - self._taken(group_id, at),
            )
            for at, node in there
        ]
        slot = pick_bundle(slots, place)
        if isinstance(slot, Rejection):
            return Choice(reason="its placement group has no node for the bundle now")
        bundle = there[slot.bundle][0]
        return Choice(node=slot.node, is_available=slot.is_available, bundle=bundle)

    def _taken(self, group: GroupId, index: int) -> ResourceSet:
        mine = (hold for at, i, hold in self._inside.values() if (at, i) == (group, index))
        return sum(mine, EMPTY)
