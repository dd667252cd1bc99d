"""A strategy as it travels in messages, in the words of the policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.policies.affinity import NodeAffinity
from phalanx.policies.entry import strategy as strategy_named
from phalanx.policies.labels import ANY_NODE, LabelSelector, condition
from phalanx.policies.request_class import Request
from phalanx.policies.strategy import Strategy
from phalanx.resources.sets import ResourceSet


@dataclass(frozen=True, kw_only=True)
class Terms:
    """`strategy` None: the cluster's own. `fallbacks`: selectors to try after the request's."""

    request: Request
    strategy: Strategy | None
    fallbacks: tuple[LabelSelector, ...]


def terms_of(wire: Mapping[str, Any], place: ResourceSet) -> Terms:
    """What a task asks of a node, by the keys name, node_id, soft and labels. Raises ValueError.

    The node of its owner fails what must not wait for a busy one; until then it is asked for.
    """
    first, *fallbacks = selectors_of(wire)
    chosen: Strategy | None = affinity_of({**wire, "fail_on_unavailable": False})
    if chosen is None and wire.get("name") == "SPREAD":
        chosen = strategy_named("SPREAD")
    request = Request(resources=place, selector=first)
    return Terms(request=request, strategy=chosen, fallbacks=tuple(fallbacks))


def affinity_of(wire: Mapping[str, Any]) -> NodeAffinity | None:
    """The affinity to the node that the strategy names, if it names one."""
    target = wire.get("node_id")
    if not target:
        return None
    soft = bool(wire.get("soft"))
    return NodeAffinity(
        node=target,
        soft=soft,
        spill_on_unavailable=soft and bool(wire.get("spill_on_unavailable")),
        fail_on_unavailable=not soft and bool(wire.get("fail_on_unavailable")),
    )


def selectors_of(wire: Mapping[str, Any]) -> list[LabelSelector]:
    """The label selectors in order of preference; any node when none is asked for.

    Raises ValueError for a condition that is none.
    """
    return [
        LabelSelector(tuple(condition(key, operator, values) for key, operator, values in one))
        for one in wire.get("labels") or ()
    ] or [ANY_NODE]
