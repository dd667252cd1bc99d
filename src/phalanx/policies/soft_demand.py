"""Demands that may be broken: of the nodes that meet the hard ones, the one breaking fewest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from phalanx.policies.node_table import NodeState
from phalanx.resources.sets import ResourceSet


@dataclass(frozen=True, kw_only=True)
class SoftDemand:
    """`soft` names the resources that may be short. `hints`: nodes that are wished for; any
    other counts as one more broken demand."""

    request: ResourceSet
    soft: frozenset[str] = frozenset()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeastBroken:
    """The node, and how many soft demands it breaks."""

    node: str
    violations: int


def violations(node: NodeState, demand: SoftDemand) -> int | None:
    """How many soft demands the node breaks; None when it breaks a hard one."""
    short = [name for name, units in demand.request.items() if units > node.available.get(name, 0)]
    if any(name not in demand.soft for name in short):
        return None
    return len(short) + bool(demand.hints and node.id not in demand.hints)


def least_broken(
    nodes: Sequence[NodeState], demand: SoftDemand, local: str | None = None
) -> LeastBroken | None:
    """The local node when it breaks nothing, then a hinted one that breaks nothing, then the
    first of those that break least, in order of ids; None when each breaks a hard demand."""
    ranked = []
    for node in nodes:
        broken = violations(node, demand)
        if broken is not None:
            order = (node.id != local, node.id not in demand.hints) if broken == 0 else (True, True)
            ranked.append((broken, *order, node.id))
    if not ranked:
        return None
    broken, *_, best = min(ranked)
    return LeastBroken(node=best, violations=broken)
