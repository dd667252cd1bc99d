"""A strategy as it travels in messages, in the words of the policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.policies.affinity import NodeAffinity
from phalanx.policies.labels import ANY_NODE, LabelSelector, condition
from phalanx.policies.request_class import Request
from phalanx.policies.strategy import Strategy
from phalanx.resources.sets import ResourceSet


class _Wire(msgspec.Struct, forbid_unknown_fields=True):
    """The keys that a strategy may have."""

    name: str = ""
    node_id: str | None = None
    soft: bool = False
    spill_on_unavailable: bool = False
    fail_on_unavailable: bool = False
    labels: list[list[tuple[str, str, list[str]]]] | None = None
    group: str | None = None
    bundle: int = -1
    capture: bool = False
    near: str = ""
    bytes: int = 0


def check_strategy(wire: Mapping[str, Any]) -> None:
    """Raise ValueError for what no policy can read: a process may send anything."""
    try:
        read = msgspec.convert(wire, _Wire)
        for named in (read.group, read.near):
            bytes.fromhex(named or "")
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"this is no strategy: {error}") from None
    if read.group is not None and "bundle" not in wire:
        raise ValueError("a strategy for a placement group names its bundle, or -1 for any")
    selectors_of(wire)


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


def selectors_of(wire: Mapping[str, Any]) -> list[LabelSelector]:
    """The label selectors in order of preference; any node when none is asked for.

    Raises ValueError for a condition that is none.
    """
    return [
        LabelSelector(tuple(condition(key, operator, values) for key, operator, values in one))
        for one in wire.get("labels") or ()
    ] or [ANY_NODE]
