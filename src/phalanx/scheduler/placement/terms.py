"""A strategy as it travels in messages, in the words of the policies."""

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
    """`affinity`: to the node that is named. `fallbacks`: selectors to try after the request's."""

    request: Request
    affinity: NodeAffinity | None
    fallbacks: tuple[LabelSelector, ...]


def terms_of(wire: Mapping[str, Any], place: ResourceSet, otherwise: Strategy) -> Terms:
    """What a task asks of a node, by the keys node_id, soft and labels. Raises ValueError.

    The node of its owner fails what must not wait for a busy one; until then it is asked for.
    `otherwise`: where it goes when the named node will not do and it is not bound to it.
    """
    first, *fallbacks = selectors_of(wire)
    return Terms(
        request=Request(resources=place, selector=first),
        affinity=affinity_of({**wire, "fail_on_unavailable": False}, otherwise),
        fallbacks=tuple(fallbacks),
    )


def affinity_of(wire: Mapping[str, Any], otherwise: Strategy) -> NodeAffinity | None:
    """The affinity to the node that the strategy names, if it names one; see `terms_of`."""
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
