"""Finds reasons to refuse demands that can never be met, or that must not wait.

A demand that only waits for room or for a worker is not refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.errors import (
    ActorUnschedulableError,
    QueueUnavailableError,
    TaskUnschedulableError,
)
from phalanx.model.gpu_sharing import MEMORY, TERMS, few_cards_text, lacking_text
from phalanx.model.rows.explanation import amounts_text
from phalanx.node.group_places import GroupPlaces
from phalanx.node.leases.model import Demand
from phalanx.node.no_other_nodes import OtherNodesView
from phalanx.node.queue_usage import QueueShares
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.placement.labels import condition

UNAVAILABLE_AFTER_S = 1.0
"""Seconds after which a demand that must not wait is refused on a busy node. Until then, idle
leases may come back.
"""

Refusal = tuple[str, str]
"""A reason, and the code of an error; the code is "" if the demand may wait."""


class Refusals:
    """Looks for reasons to refuse a demand: in the node, its placement groups, its queues, and the
    other nodes.
    """

    def __init__(
        self,
        node_id: str,
        labels: Mapping[str, str],
        resources: NodeResources,
        groups: GroupPlaces,
        shares: QueueShares,
        other_nodes: OtherNodesView,
    ) -> None:
        self._node_id = node_id
        self._labels = labels
        self._resources = resources
        self._groups = groups
        self._shares = shares
        self._other_nodes = other_nodes

    def of(self, demand: Demand, now: float, is_draining: bool) -> Refusal | None:
        """Return why a demand is refused; None if it is not refused. Also notes in the demand
        whether its work can run here.
        """
        if demand.group is not None:
            refusal = self._groups.refusal(demand.group, demand.place)
        elif self.is_deleted(demand):
            refusal = (f"queue {demand.queue} was deleted", code_of(QueueUnavailableError))
        else:
            refusal = self._outside_groups(demand, is_draining)
        return refusal or _impatience(demand, now)

    def is_deleted(self, demand: Demand) -> bool:
        """Whether the demand's queue does not exist any more."""
        return demand.is_own and not self._shares.is_known(demand.queue)

    def _outside_groups(self, demand: Demand, is_draining: bool) -> Refusal | None:
        strategy = demand.strategy
        target: str | None = strategy.get("node_id")
        is_bound = target is not None and not strategy.get("soft")
        if target and is_bound and (closed := self._why_closed(target, is_draining)):
            return (f"node {target} {closed}", unschedulable(demand))
        labels = strategy.get("labels")
        is_labelled = labels is None or any(_holds(self._labels, s) for s in labels)
        demand.can_run_here = (
            self._resources.can_ever(demand.place)
            and is_labelled
            and not is_draining
            and not (is_bound and target != self._node_id)
        )
        is_alone = self._other_nodes.is_alone
        if demand.can_run_here or (not is_alone and self._other_nodes.is_feasible(demand)):
            return None
        code = unschedulable(demand) if is_bound else ""
        if not is_labelled:
            return (f"no node has labels that match {labels}", code)
        if is_draining:
            return ("this node drains, and no other can ever run it", code)
        asked = demand.place.to_mapping()
        total = self._resources.total()
        lacking = {k: v for k, v in asked.items() if v > total.get(k, 0)}
        has = {k: total.get(k, 0) for k in lacking}
        where = "the largest node" if is_alone else "this node"
        few = few_cards_text(asked, [self._resources.card_sizes()], where)
        if not TERMS.isdisjoint(lacking) or few:
            # Cards do not grow while work waits. A node without cards tells nothing about other
            # nodes.
            is_known = is_alone or MEMORY in total
            why = lacking_text(lacking, has, where) if lacking else few
            return (why, unschedulable(demand) if is_known else "")
        asks = amounts_text(lacking)
        return (f"it asks for {asks} and {where} has {amounts_text(has)}", code)

    def _why_closed(self, node_id: str, is_draining: bool) -> str:
        if node_id == self._node_id:
            return "drains" if is_draining else ""
        return self._other_nodes.why_closed(node_id)


def unschedulable(demand: Demand) -> str:
    """Return the code of the error for a demand that can run nowhere and must not wait."""
    return code_of(ActorUnschedulableError if demand.actor else TaskUnschedulableError)


def _impatience(demand: Demand, now: float) -> Refusal | None:
    """Return the refusal of a demand that must not wait for a busy node, once it has waited long
    enough; otherwise None.
    """
    strategy = demand.strategy
    if not strategy.get("fail_on_unavailable") or now - demand.since < UNAVAILABLE_AFTER_S:
        return None
    asked = demand.place.to_mapping()
    reason = f"node {strategy['node_id']} does not have {asked} free now"
    return (reason, unschedulable(demand))


def _holds(labels: Mapping[str, str], wanted: Sequence[Any]) -> bool:
    """Whether labels meet each of the conditions, which are (key, operator, values)."""
    conditions = [condition(key, operator, values) for key, operator, values in wanted]
    return all(c.holds(labels) for c in conditions)
