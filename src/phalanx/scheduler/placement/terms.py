"""Converts a strategy from the form in which messages carry it to the policies' types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.affinity import NodeAffinity
from phalanx.scheduler.placement.labels import LabelSelector
from phalanx.scheduler.placement.request_class import Request
from phalanx.scheduler.placement.strategies import selectors_of
from phalanx.scheduler.placement.strategy import Strategy


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of one request: the affinity to a named node, and the selectors, which are tried in
    order.
    """

    request: Request
    affinity: NodeAffinity | None
    fallbacks: tuple[LabelSelector, ...]


def terms_of(wire: Mapping[str, Any], place: ResourceSet, otherwise: Strategy) -> Terms:
    """Return a task's terms, which are in the keys node_id, soft and labels. Raises ValueError.

    A task that must not wait is sent to its node even if the node is busy. The node then refuses
    the task. `otherwise`: the strategy that decides if the named node is not possible and the task
    is not bound to it.
    """
    first, *fallbacks = selectors_of(wire)
    return Terms(
        request=Request(resources=place, selector=first),
        affinity=affinity_of({**wire, "fail_on_unavailable": False}, otherwise),
        fallbacks=tuple(fallbacks),
    )


def affinity_of(wire: Mapping[str, Any], otherwise: Strategy) -> NodeAffinity | None:
    """Return the affinity to the node that the strategy names; None if the strategy names no node.
    `otherwise`: the strategy that decides if that node is not possible and the task is not bound to
    it.
    """
    target = wire.get("node_id")
    if not target:
        return None
    soft = bool(wire.get("soft"))
    return NodeAffinity(
        node=target,
        soft=soft,
        spill_on_unavailable=soft and bool(wire.get("spill_on_unavailable")),
        fail_on_unavailable=not soft and bool(wire.get("fail_on_unavailable")),
        otherwise=otherwise,
    )
