"""Asks other nodes for workers for the demands that wait on this node.

This module is pure. Every node has a copy of the cluster's view, which the head sends. By this
copy, a node decides about the work that was submitted on it. The decision is a hint, because only
the node that is asked grants workers.

Workers are requested from nodes with room for a demand. If no node has room, a demand waits on this
node. Two kinds of demands wait where the wait is shortest instead: demands that can never run on
this node, and demands whose strategy leaves the choice of every node to a plan. Each plan makes all
requests again, so an unanswered request lasts only until the next plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from phalanx.model.ids import BundleId
from phalanx.node.leases.model import Demand, DemandKey
from phalanx.node.options import SpillOptions
from phalanx.node.spread_turns import SpreadTurns
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
from phalanx.scheduler.placement.strategy import Asking, Strategy
from phalanx.scheduler.placement.terms import terms_of

MAX_PICKS = 512
"""The largest number of workers of one demand that a plan places. The next plan places more."""

MAX_PATIENCE_S = 0.2
"""A node that has a task's arguments may be asked for workers although it seems full. This is the
longest time, in seconds, for which it is asked.
"""

MAX_BLIND = 8
"""The largest number of nodes that are asked for one demand while nothing is known about their free
resources.
"""


class Asks(Protocol):
    """Asks other nodes for workers, on behalf of spillback."""

    def ask(self, node_id: str, demand: Demand, count: int, seen: int) -> None:
        """Tell a node how many workers a demand would use there. `seen`: how many the node has
        granted so far.
        """
        ...

    def withdraw(
        self, node_id: str, owner: bytes, scheduling_class: int, is_over: bool = False
    ) -> None:
        """Tell a node that a demand is met or gone. `is_over`: whether the demand's class is over,
        too.
        """
        ...


class Spillback:
    """Decides which nodes are asked for how many workers, for each demand of this node's owners."""

    def __init__(
        self,
        me: str,
        cluster: ClusterNodes,
        effects: Asks,
        rng: RandomSource,
        options: SpillOptions,
        is_mine: Callable[[bytes], bool],
        nodes_of: Callable[[BundleId], list[str]],
    ) -> None:
        """`is_mine(owner)`: whether a process belongs to this node. Demands of other processes are
        never passed on. `nodes_of(place)`: the other nodes with bundles that a demand in this place
        may use.
        """
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
        self._turns: dict[DemandKey, SpreadTurns] = {}
        self._asked: dict[DemandKey, dict[str, int]] = {}
        self._seen: dict[tuple[str, DemandKey], int] = {}

    def use(self, placement: PlacementPolicy) -> None:
        """Set the cluster's placement policy."""
        self._default: Strategy = placement_strategy(placement, self._waiting)
        self._starts_here_first = placement.starts_here_first
        self._tried = TriedPlaces[DemandKey]() if placement.policy == "selector" else None
        self._patient: Strategy = self._waiting if self._starts_here_first else self._default
        """The strategy for demands for which no node has room."""

    # ---- knowledge of the other nodes ------------------------------------------------------------

    def put(self, row: NodeRow) -> None:
        """Store a node's row, which may be this node's own."""
        self._cluster.put(row)

    def remove(self, node_id: str) -> None:
        """Forget a node that is gone."""
        self._cluster.remove(node_id)
        self.forget(node_id)

    def forget(self, node_id: str) -> None:
        """Forget the requests to a node and the workers that it granted. The next plan may ask it
        again.
        """
        for entry in [e for e in self._seen if e[0] == node_id]:
            del self._seen[entry]
        for asked in self._asked.values():
            asked.pop(node_id, None)

    @property
    def is_alone(self) -> bool:
        """Whether this node is alone, and its policy lets a node first start all work for which it
        has room. Such a node needs no plan.
        """
        nodes = self.view.nodes
        return self._starts_here_first and len(nodes) == (self._me in nodes.row_of)

    def must_plan(self, strategy: Mapping[str, Any]) -> bool:
        """Whether a plan must consider the other nodes before any work starts here."""
        return self._is_planned(strategy) and not self.is_alone

    def why_closed(self, node_id: str) -> str:
        """Return why a node accepts no new work; "" if it accepts work."""
        nodes = self.view.nodes
        row = nodes.row_of.get(node_id)
        if row is None:
            return "does not exist or is not alive"
        return "" if nodes.states[row].is_schedulable else "drains"

    def is_feasible(self, demand: Demand) -> bool:
        """Whether any node, busy or not, could run this request."""
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
        """Return what the strategy decides now for one worker of a waiting demand. Only nodes with
        room for that worker are considered.
        """
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
        """Return `asking`. If the cluster's policy is `selector`, add the facts that only this
        policy uses.

        `chosen`: the nodes that this plan has chosen for the demand so far.
        """
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
        """Decide again how many workers each node is asked for, and how many workers of each demand
        may run here.

        `is_blind`: whether no news of other nodes arrives. Resources there that seem taken may then
        be free again.
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
        """Withdraw the requests for a demand that is met, or whose owner has ended."""
        for node_id in self._asked.pop(key, {}):
            self._effects.withdraw(node_id, key[0], key[1])
        if self._tried is not None:
            self._tried.forget(key)

    def class_over(self, owner: bytes, scheduling_class: int) -> None:
        """Forget a class that needs no more workers, here and on the nodes that were asked."""
        key = (owner, scheduling_class)
        lent = [node_id for node_id, mine in self._seen if mine == key]
        for node_id in lent:
            del self._seen[node_id, key]
        self._turns.pop(key, None)
        if self._tried is not None:
            self._tried.forget(key)
        for node_id in sorted({*lent, *self._asked.pop(key, {})}):
            self._effects.withdraw(node_id, owner, scheduling_class, is_over=True)

    def granted(
        self, node_id: str, owner: bytes, scheduling_class: int, hold: ResourceSet, lease: int
    ) -> None:
        """Count a worker that another node lends. `hold`: the amounts that the worker holds there
        outside of bundles, which are now taken. `lease`: the number of the lease on that node. The
        node's row may include the lease already, because a grant comes only when its worker has
        started.
        """
        key = (owner, scheduling_class)
        if hold and self._cluster.last_lease(node_id) < lease and node_id in self.view.nodes.row_of:
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
        """Note that a node got back a worker that it had lent."""
        self._cluster.count_no_more(node_id)

    def owner_gone(self, owner: bytes) -> None:
        """Forget the demands of a process of this node that has ended."""
        for key in [k for k in self._asked if k[0] == owner]:
            self.withdraw(key)
        for entry in [e for e in self._seen if e[1][0] == owner]:
            del self._seen[entry]
        for key in [k for k in self._turns if k[0] == owner]:
            del self._turns[key]

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
            strategy = turns = self._turns.setdefault(key, SpreadTurns())
            turns.begin({**self._asked.get(key, {}), self._me: demand.here})
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
            # No node has room, so the whole demand waits where the wait is shortest, or where it
            # must run.
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
        """Return how many of `count` workers are requested from the node that has the arguments,
        although it seems full.

        The node was full at its last report, but the owners of its workers may have no more tasks.
        Under the default policy, all workers are requested from it, but only for a short time: at
        most as long as the transfer of the arguments would take. Under least-waiting, as many
        workers are requested as will probably start there within that time.
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
        """Return the nodes that have granted workers to this owner, or from which workers are
        requested for it.
        """
        given = {node_id for node_id, key in self._seen if key[0] == owner}
        asked = (nodes for key, nodes in self._asked.items() if key[0] == owner)
        return frozenset(given.union(*asked))

    def _anybody(self, request: Request, count: int) -> dict[str, int]:
        """Return `count` for each of at most MAX_BLIND other nodes that could run the request. The
        nodes are those that follow this node in the ring of ids, so each plan chooses the same
        ones.
        """
        states = self.view.nodes.states
        feasible = self.view.of(request).feasible
        others = [state.id for state in states if state.id != self._me]
        ring = sorted(others, key=lambda node: (node < self._me, node))
        row_of = self.view.nodes.row_of
        return dict.fromkeys([n for n in ring if feasible[row_of[n]]][:MAX_BLIND], count)

    def _is_planned(self, strategy: Mapping[str, Any]) -> bool:
        """Whether a plan decides how many workers of a demand with this strategy may run here. If
        not, this node first starts all workers for which it has room here.
        """
        return not self._starts_here_first or any(
            strategy.get(name) for name in ("name", "near", "node_id", "labels")
        )
