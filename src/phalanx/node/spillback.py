"""Bottom-up scheduling, the upper half: what waits on this node is asked of others.

Every node holds a copy of the cluster's view, as the head sends it, and decides for what was
submitted on it. The choices of these copies are hints, for the node asked is the one that grants.
A demand is asked of the nodes that have room for it; what no node has room for, and cannot ever run
here, waits where it would wait least. Asked counts are set anew with each plan, so nothing asked
for in vain lasts. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from phalanx.node.leases.model import Demand, DemandKey
from phalanx.node.options import SpillOptions
from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.cluster_nodes import ClusterNodes, NodeRow
from phalanx.scheduler.placement.entry import pick_node, placement_strategy
from phalanx.scheduler.placement.hybrid import Hybrid
from phalanx.scheduler.placement.node_table import NodeState
from phalanx.scheduler.placement.outcome import Outcome, Placed
from phalanx.scheduler.placement.placement_policy import PlacementPolicy
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.selector.tried import TriedPlaces
from phalanx.scheduler.placement.spread import Spread
from phalanx.scheduler.placement.strategy import Asking, Strategy
from phalanx.scheduler.placement.terms import terms_of

MAX_PICKS = 512
"""Workers of one demand that one plan looks for; the next plan goes on."""

MAX_PATIENCE_S = 0.2
"""So long a node that seemed full is asked because it holds arguments."""

MAX_BLIND = 8
"""Nodes asked for one demand while nothing is heard of what they have free."""


class Asks(Protocol):
    """What spilling asks of its shell."""

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """Tell a node how many workers this demand would use there, `seen` of which it gave."""
        ...

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """Tell a node that this demand is met or gone; `is_over`: and its class with it."""
        ...


class Spillback:
    """Which other nodes are asked for how many workers, for each demand of this node's owners."""

    def __init__(
        self,
        me: str,
        cluster: ClusterNodes,
        effects: Asks,
        rng: RandomSource,
        options: SpillOptions,
        is_mine: Callable[[bytes], bool],
        nodes_of: Callable[[tuple[bytes, int]], list[str]],
    ) -> None:
        """`is_mine(owner)`: whether a process is of this node; others' demands never move on.
        `nodes_of(place)`: the other nodes where bundles are that a demand may use."""
        self._me = me
        self._cluster = cluster
        self.view = cluster.view
        self._waiting = cluster.waiting
        self._effects = effects
        self._rng = rng
        self._options = options
        self._is_mine = is_mine
        self._nodes_of = nodes_of
        self.use(options.placement)
        self._spread: dict[DemandKey, Strategy] = {}
        self._asked: dict[DemandKey, dict[str, int]] = {}
        self._seen: dict[tuple[str, DemandKey], int] = {}

    def use(self, placement: PlacementPolicy) -> None:
        """The cluster's policy is this one."""
        self._default: Strategy = placement_strategy(placement, self._waiting)
        self._starts_here_first = placement.starts_here_first
        self._tried = TriedPlaces[DemandKey]() if placement.policy == "selector" else None
        self._patient: Strategy = self._waiting if self._starts_here_first else self._default
        """Where what nobody has room for waits."""

    # ---- what is known of the others ---------------------------------------------------------

    def put(self, row: NodeRow) -> None:
        """A node, this one or another, is as this row says."""
        self._cluster.put(row)

    def remove(self, node_id: str) -> None:
        """A node is gone."""
        self._cluster.remove(node_id)
        self.forget(node_id)

    def forget(self, node_id: str) -> None:
        """All that was asked of a node, and had from it, is void; the next plan may ask again."""
        for entry in [e for e in self._seen if e[0] == node_id]:
            del self._seen[entry]
        for asked in self._asked.values():
            asked.pop(node_id, None)

    @property
    def is_alone(self) -> bool:
        """Whether this node may start what it has room for without a plan: there is no other."""
        nodes = self.view.nodes
        return self._starts_here_first and len(nodes) == (self._me in nodes.row_of)

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Whether nothing may start here before it was looked at what other nodes have."""
        return self._is_planned(strategy) and not self.is_alone

    def why_closed(self, node_id: str) -> str:
        """Why this node takes nothing new; empty when it does."""
        nodes = self.view.nodes
        row = nodes.row_of.get(node_id)
        if row is None:
            return "does not exist or is not alive"
        return "" if nodes.states[row].is_schedulable else "drains"

    def is_feasible(self, demand: Demand) -> bool:
        """Whether any node, busy or not, could run this."""
        terms = terms_of(demand.strategy, demand.place, self._default)
        outcome = pick_node(
            self.view,
            terms.request,
            Asking(),
            self._rng,
            strategy=terms.affinity or self._patient,
            fallbacks=terms.fallbacks,
        )
        return isinstance(outcome, Placed)

    def why(self, demand: Demand, now: float) -> Outcome:
        """What the strategy of a waiting demand says now, of nodes with room for one of it."""
        terms = terms_of(demand.strategy, demand.place, self._default)
        asking = self._asking(demand, avoid_local=False)
        return pick_node(
            self.view,
            terms.request,
            self._for_selector(asking, demand.key, {}, demand.count, now),
            self._rng,
            strategy=terms.affinity or self._default,
            fallbacks=terms.fallbacks,
        )

    def _asking(self, demand: Demand, avoid_local: bool) -> Asking:
        near: str | None = demand.strategy.get("near")
        size: int = demand.strategy.get("bytes", 0)
        return Asking(
            local=self._me,
            preferred=near or self._me,
            require_available=True,
            avoid_local=avoid_local,
            argument_bytes=size,
            held_bytes={near: size} if near else {},
        )

    def _for_selector(
        self, asking: Asking, key: DemandKey, chosen: Mapping[str, int], waiting: int, now: float
    ) -> Asking:
        """The terms with what the selector alone looks at, where it is the cluster's policy.
        `chosen`: the nodes that this plan has chosen for the demand so far."""
        if self._tried is None:
            return asking
        return replace(
            asking,
            waiting=waiting,
            tried=self._tried.of(key, now),
            beside=self._places_of(key[0]) | chosen.keys(),
        )

    # ---- planning ----------------------------------------------------------------------------

    def plan(self, demands: Iterable[Demand], now: float, is_blind: bool = False) -> None:
        """Set anew what is asked of whom, and how much of each demand may run here.

        `is_blind`: no news of other nodes come. What seems taken there may be free again.
        """
        taken: dict[str, NodeState] = {}
        wanted: dict[DemandKey, tuple[Demand, dict[str, int]]] = {}
        patience = self._options.threshold
        for demand in demands:
            if demand.actor or not self._is_mine(demand.owner):
                continue
            key = demand.key
            if demand.group is not None:
                nodes = self._nodes_of(demand.group)
                wanted[key] = (demand, dict.fromkeys(nodes, -(-demand.count // max(len(nodes), 1))))
                continue
            is_planned = self._is_planned(demand.strategy)
            kept = min(patience, demand.count) if demand.can_run_here and not is_planned else 0
            patience -= kept
            targets = self._targets(key, demand, demand.count - kept, taken, now, is_blind)
            demand.here = targets.pop(self._me, 0) if is_planned else -1
            wanted[key] = (demand, targets)
        for state in taken.values():
            self.view.nodes.put(state)
        for key, (demand, targets) in wanted.items():
            asked = self._asked.setdefault(key, {})
            for node_id in sorted(targets.keys() | asked.keys()):
                count = targets.get(node_id, 0)
                if count != asked.get(node_id, 0):
                    self._ask(key, demand, node_id, count)
        for key in [k for k in self._asked if k not in wanted]:
            self.withdraw(key)

    def _ask(self, key: DemandKey, demand: Demand, node_id: str, count: int) -> None:
        asked = self._asked.setdefault(key, {})
        if count:
            asked[node_id] = count
            self._effects.ask(node_id, demand, count, self._seen.get((node_id, key), 0))
        else:
            asked.pop(node_id, None)
            self._effects.withdraw(node_id, *key)

    def withdraw(self, key: DemandKey) -> None:
        """The demand is met or its owner gone: nobody is asked for it any more."""
        for node_id in self._asked.pop(key, {}):
            self._effects.withdraw(node_id, key[0], key[1])
        if self._tried is not None:
            self._tried.forget(key)

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """This class will want nothing any more: who was asked for it forgets it as well."""
        key = (owner, scheduling_class)
        lent = [node_id for node_id, mine in self._seen if mine == key]
        for node_id in lent:
            del self._seen[node_id, key]
        self._spread.pop(key, None)
        if self._tried is not None:
            self._tried.forget(key)
        for node_id in sorted({*lent, *self._asked.pop(key, {})}):
            self._effects.withdraw(node_id, owner, scheduling_class, is_over=True)

    def granted(self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet) -> None:
        """A node lends a worker for this demand, which holds so much of what seemed free there."""
        key = (owner, scheduling_class)
        if hold and node_id in self.view.nodes.row_of:
            self._cluster.count_in(node_id, hold, is_available=True)
        self._seen[node_id, key] = self._seen.get((node_id, key), 0) + 1
        if self._tried is not None:
            self._tried.given(key, node_id)
        asked = self._asked.get(key, {})
        if asked.get(node_id, 0) > 1:
            asked[node_id] -= 1
        else:
            asked.pop(node_id, None)

    def given_back(self, node_id: str) -> None:
        """A worker that a node lent is its own again."""
        self._cluster.count_no_more(node_id)

    def owner_gone(self, owner: bytes) -> None:
        """A process of this node ended."""
        for key in [k for k in self._asked if k[0] == owner]:
            self.withdraw(key)
        for entry in [e for e in self._seen if e[1][0] == owner]:
            del self._seen[entry]
        for key in [k for k in self._spread if k[0] == owner]:
            del self._spread[key]

    def _targets(
        self,
        key: DemandKey,
        demand: Demand,
        count: int,
        taken: dict[str, NodeState],
        now: float,
        is_blind: bool,
    ) -> dict[str, int]:
        terms = terms_of(demand.strategy, demand.place, self._default)
        must_plan = self._is_planned(demand.strategy)
        strategy: Strategy = terms.affinity or self._default
        if terms.affinity is None and demand.strategy.get("name") == "SPREAD":
            strategy = self._spread.setdefault(key, Spread())
        asking = self._asking(demand, avoid_local=not must_plan)
        first = self._asked_first(demand, terms.request, count, now)
        targets: dict[str, int] = {demand.strategy["near"]: first} if first else {}
        count -= first
        for left in range(min(count, MAX_PICKS), 0, -1):
            asking = self._for_selector(asking, key, targets, left, now)
            outcome = pick_node(
                self.view,
                terms.request,
                asking,
                self._rng,
                strategy=strategy,
                fallbacks=terms.fallbacks,
            )
            if not isinstance(outcome, Placed) or not outcome.is_available:
                break
            targets[outcome.node] = targets.get(outcome.node, 0) + 1
            row = self.view.nodes.row_of[outcome.node]
            taken.setdefault(outcome.node, self.view.nodes.states[row])
            self.view.nodes.take(outcome.node, terms.request.resources)
        if self._tried is not None:
            place = demand.place
            asked = {node: place.times(n) for node, n in targets.items() if node != self._me}
            self._tried.asked(key, asked, now)
        if not targets and demand.count and (must_plan or not demand.can_run_here):
            # Nobody has room: all of it waits where it would wait least, or where it must run.
            patient = replace(asking, require_available=False)
            outcome = pick_node(
                self.view,
                terms.request,
                patient,
                self._rng,
                strategy=terms.affinity or self._patient,
                fallbacks=terms.fallbacks,
            )
            if isinstance(outcome, Placed):
                targets[outcome.node] = demand.count
        elif not targets and is_blind:
            return self._anybody(terms.request, demand.count)
        return targets

    def _asked_first(self, demand: Demand, request: Request, count: int, now: float) -> int:
        """For how many of `count` the node with their arguments is asked though it seems full.

        It was full when it last reported: who holds its workers may have nothing for them to do. By
        the default policy it is asked for a moment, but no longer than bringing the arguments would
        take; by least-waiting for as many as are likely to start there in that time.
        """
        near = demand.strategy.get("near")
        row = self.view.nodes.row_of.get(near or "")
        if near is None or row is None:
            return 0
        known = self.view.of(request)
        if known.available[row] or not known.feasible[row]:
            return 0
        transfer_s = self._waiting.transfer_s(self._me, demand.strategy["bytes"])
        if self._default is self._waiting:
            return max(0, min(count, self._waiting.starts_within(near, transfer_s)))
        waited_s = now - demand.since
        is_patient = isinstance(self._default, Hybrid) and waited_s < min(
            transfer_s, MAX_PATIENCE_S
        )
        return count if is_patient else 0

    def _places_of(self, owner: bytes) -> frozenset[str]:
        """The nodes that gave this owner workers, or were asked to."""
        given = {node_id for node_id, key in self._seen if key[0] == owner}
        asked = (nodes for key, nodes in self._asked.items() if key[0] == owner)
        return frozenset(given.union(*asked))

    def _anybody(self, request: Request, count: int) -> dict[str, int]:
        """The feasible nodes that follow this one in the ring of ids: each plan asks the same."""
        states = self.view.nodes.states
        feasible = self.view.of(request).feasible
        others = [state.id for state in states if state.id != self._me]
        ring = sorted(others, key=lambda node: (node < self._me, node))
        row_of = self.view.nodes.row_of
        return dict.fromkeys([n for n in ring if feasible[row_of[n]]][:MAX_BLIND], count)

    def _is_planned(self, strategy: Mapping[str, Any]) -> bool:
        """Whether the plan says how much may run here; else this node takes what it can, first."""
        return not self._starts_here_first or any(
            strategy.get(name) for name in ("name", "near", "node_id", "labels")
        )
