"""Explains why tasks of this node's owners wait for workers."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.gpu_sharing import GPU, MEMORY, amount_text
from phalanx.model.rows.explanation import Explanation
from phalanx.node.leases.demands import Demands
from phalanx.node.leases.model import Demand
from phalanx.node.no_other_nodes import Spills
from phalanx.protocol.requests.node import ExplainTask
from phalanx.protocol.requests.request import Asker
from phalanx.scheduler.devices.cards import card_ask, most_free
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.quantities import from_units
from phalanx.scheduler.placement.explaining import explain_outcome, explain_waiting, plain_reason
from phalanx.scheduler.placement.outcome import GPU_TYPE_RESOURCE


class WaitingTasks:
    """Answers `explain` requests about tasks."""

    def __init__(
        self,
        waiting: Demands,
        spilling: Spills,
        resources: NodeResources,
        clock: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._spilling = spilling
        self._resources = resources
        self._clock = clock

    def explain(self, asker: Asker[Explanation], request: ExplainTask) -> Explanation:
        """Explain why a class of the asker's tasks has fewer workers than it could use."""
        name = request.name
        demand = self._waiting.of(asker.process, request.scheduling_class)
        if demand is None:
            text = "it waits for no node: its worker is starting, or its arguments are not ready"
            return explain_waiting("task", name, plain_reason(text))
        if demand.group is not None:
            text = "it waits for room in the bundles of its placement group"
            return explain_waiting("task", name, plain_reason(text))
        outcome = None if self._spilling.is_alone else self._spilling.why(demand, self._clock())
        if outcome is not None:
            explanation = explain_outcome("task", name, outcome)
            near = demand.strategy.get("near")
            if near:
                text = f"most bytes of its arguments lie on node {near}, which is asked first"
                explanation.reasons.insert(0, plain_reason(text))
            return explanation
        return explain_waiting("task", name, plain_reason(self._of_the_only_node(demand)))

    def _of_the_only_node(self, demand: Demand) -> str:
        asked = demand.place.to_mapping()
        total, free = self._resources.total(), self._resources.available()
        for resource in asked:
            if resource.startswith(GPU_TYPE_RESOURCE) and not total.get(resource):
                kind = resource.removeprefix(GPU_TYPE_RESOURCE)
                return f"this node, the only one, has no {kind}"
        for word, amounts in (("", total), (" free", free)):
            lacks = [
                f"{amount_text(resource, amounts.get(resource, 0))} of {amount:g} asked"
                for resource, amount in asked.items()
                if amounts.get(resource, 0) < amount
            ]
            if lacks:
                return f"this node, the only one, has{word} {', '.join(lacks)}"
        ask = card_ask(demand.place)
        if ask is not None and not self._resources.can_now(demand.place):
            of_node = self._resources
            left, memory = of_node.devices_left().get(GPU, []), of_node.card_memory(0)
            most = from_units(most_free(left, ask, of_node.cards, memory))
            name = MEMORY if ask.memory else GPU
            wanted = amount_text(name, ask.memory or from_units(ask.share))
            return (
                f"this node, the only one, has at most {amount_text(name, most)} free on "
                f"{ask.count} of its GPUs, {wanted} asked"
            )
        return "it is next"
