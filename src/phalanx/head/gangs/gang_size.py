"""How large a gang the cluster could ever hold, whatever runs on it now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.resources.sets import ResourceSet

Amounts = Mapping[str, float]


def most_members(
    members: Sequence[Amounts], nodes: Sequence[Amounts], capability: Amounts | None = None
) -> int:
    """How many of these members, the first first, empty nodes hold side by side, within what
    their queue may use at most. Members go to the first node that has room, so the answer is
    exact where all ask for the same.
    """
    left = [ResourceSet.from_mapping(node) for node in nodes]
    held: dict[str, float] = {}
    placed = at = 0
    for member in members:
        if placed and member != members[placed - 1]:
            at = 0
        used = {name: held.get(name, 0.0) + amount for name, amount in member.items()}
        limits = capability or {}
        if any(amount > limits[name] for name, amount in used.items() if name in limits):
            break
        asked = ResourceSet.from_mapping(member)
        while at < len(left) and not asked.is_subset(left[at]):
            at += 1
        if at == len(left):
            break
        left[at] = left[at] - asked
        held |= used
        placed += 1
    return placed


def why_none(member: Amounts, nodes: Sequence[Amounts]) -> str:
    """What one member asks for that no node has, in words; "" where some node holds it."""
    asked = ResourceSet.from_mapping(member)
    if any(asked.is_subset(ResourceSet.from_mapping(node)) for node in nodes):
        return ""
    largest = {name: max((n.get(name, 0.0) for n in nodes), default=0.0) for name in member}
    lacking = {name: amount for name, amount in member.items() if amount > largest[name]}
    if not lacking:
        return f"no single node has {said(member)} together"
    has = said({name: largest[name] for name in lacking})
    asks = said(lacking)
    return f"a member asks for {asks}, and the largest node has {has}"


def said(amounts: Amounts) -> str:
    """Amounts as people say them: 2 CPU, 1.5 GiB memory."""
    return ", ".join(
        f"{round(amount / 2**30, 2):g} GiB {name}" if name in _BYTES else f"{amount:g} {name}"
        for name, amount in amounts.items()
    )


_BYTES = ("memory", "object_store_memory")
