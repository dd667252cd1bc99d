"""Refuses gangs that could never run even on an empty cluster, before they are created."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phalanx.errors import GangInfeasibleError
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.nodes.record import NodeTotals
from phalanx.model.gpu_sharing import (
    CARDS,
    GPU,
    LIMIT,
    MEMORY,
    MPS,
    NO_MPS,
    TERMS,
    few_cards_text,
    profiles_in,
)
from phalanx.model.ids import GangId
from phalanx.model.jobs.spec import MAX_REPLICAS
from phalanx.model.jobs.topology import NetworkTopology
from phalanx.model.options import check_amounts
from phalanx.model.rows.explanation import amounts_text
from phalanx.scheduler.devices.cards import PLAIN, Cards
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet

Amounts = Mapping[str, float]


def new_feasible_gang(
    *,
    group: GangId,
    creator: bytes,
    created: float,
    limits: Amounts,
    domains: Sequence[Sequence[Amounts]],
    name: str,
    queue: str,
    needs: list[dict[str, float]],
    min_members: int,
    priority: int = 0,
    topology: NetworkTopology | None = None,
    ports: int = 1,
    grace_s: float = 0.0,
    user: str = "",
) -> Gang:
    """Return a new gang, with all its members waiting.

    `limits`: the most that the gang's queue may use. `domains`: for each domain that may hold the
    whole gang, the totals of each node. Raises GangInfeasibleError for a gang that no domain could
    ever hold, and ValueError for impossible numbers of members or amounts.
    """
    if not 0 <= min_members <= len(needs) or not needs:
        raise ValueError(f"a gang of {len(needs)} members cannot need {min_members} of them")
    if len(needs) > MAX_REPLICAS:
        raise ValueError(f"a gang has at most {MAX_REPLICAS} members, not {len(needs)}")
    for need in needs:
        check_amounts(need)
    check_side_by_side(f"gang {name}", queue, needs[:min_members], limits, domains)
    return Gang(
        gang_id=group,
        name=f"{name}-{group[:6].hex()}",
        queue=queue,
        priority=priority,
        min_members=min_members,
        members=[Member(need=need) for need in needs],
        creator=creator,
        created=created,
        topology=topology,
        port_count=max(ports, 1),
        grace_s=grace_s,
        user=user,
    )


def check_side_by_side(
    what: str,
    queue: str,
    needs: list[dict[str, float]],
    limits: Amounts,
    domains: Sequence[Sequence[Amounts]],
) -> None:
    """Raise GangInfeasibleError if no domain could hold all of `needs` at the same time within the
    queue's limits, even if nothing else ran there.
    """
    counts = [most_members(needs, nodes, limits) for nodes in domains]
    most = max(counts)
    if most >= len(needs):
        return
    nodes = domains[counts.index(most)]
    why = why_none(needs[0], nodes)
    if not why and most < most_members(needs, nodes):
        why = f"queue {queue} may use at most {amounts_text(limits)}"
    elif not why:
        asks = amounts_text(needs[0])
        where = "its only node holds" if len(nodes) == 1 else f"its {len(nodes)} nodes hold"
        if len(domains) > 1:
            where = f"the {len(domains)} domains whose nodes are close enough hold"
        why = f"each asks for {asks}, and {where} no more side by side"
    if len(needs) == 1:
        raise GangInfeasibleError(f"{what} could never start here: {why}.")
    raise GangInfeasibleError(
        f"{what} needs {len(needs)} members at once and could never have more than {most} here: "
        f"{why}."
    )


def check_sum(
    what: str,
    queue: str,
    needs: Sequence[Amounts],
    limits: Amounts,
    nodes: Sequence[Amounts],
) -> None:
    """Raise GangInfeasibleError if the sum of `needs` exceeds the totals of all these nodes or the
    limits of the queue. The members could then never be placed at the same time.
    """
    for name in sorted({name for need in needs for name in need} - TERMS):
        if name == GPU and any(MEMORY in need for need in needs):
            continue  # memory of GPUs is a share of cards, and cards differ from node to node
        asked = sum(need.get(name, 0.0) for need in needs)
        has = sum(node.get(name, 0.0) for node in nodes)
        most = limits.get(name, has)
        if asked <= min(has, most):
            continue
        here = f"the cluster has {amounts_text({name: has})}"
        where = here if asked > has else f"queue {queue} may use {amounts_text({name: most})}"
        asks = amounts_text({name: asked})
        raise GangInfeasibleError(
            f"{what} needs {len(needs)} members at once, which ask for {asks} in all: {where}."
        )


def most_members(
    members: Sequence[Amounts], nodes: Sequence[Amounts], capability: Amounts | None = None
) -> int:
    """Return how many of these members, taken in order, fit on empty nodes at the same time within
    the capability of their queue. Each member goes to the first node with room, so the answer is
    exact if all members request the same amounts.
    """
    if any(not TERMS.isdisjoint(member) or 0 < member.get(GPU, 0.0) < 1 for member in members):
        return _most_on_cards(members, nodes, capability or {})
    # only of nodes that were tried, because there may be thousands of nodes
    left: dict[int, ResourceSet] = {}

    def room(at: int) -> ResourceSet:
        if at not in left:
            left[at] = ResourceSet.from_mapping(nodes[at])
        return left[at]

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
        while at < len(nodes) and not asked.is_subset(room(at)):
            at += 1
        if at == len(nodes):
            break
        left[at] = room(at) - asked
        held |= used
        placed += 1
    return placed


def _most_on_cards(
    members: Sequence[Amounts], nodes: Sequence[Amounts], capability: Amounts
) -> int:
    """Return the result of `most_members`, with each GPU's resources counted separately."""
    left: dict[int, NodeResources] = {}
    held: dict[str, float] = {}
    placed = at = 0
    for member in members:
        at = at if placed and member == members[placed - 1] else 0
        if not _within(capability, held, member):
            break
        asked = ResourceSet.from_mapping(member)
        while at < len(nodes):
            room = left.get(at)
            if room is None:
                room = left[at] = empty_node(nodes[at])
            if room.acquire(asked) is not None:
                break
            at += 1
        if at == len(nodes):
            break
        placed += 1
    return placed


def _within(limits: Amounts, held: dict[str, float], member: Amounts) -> bool:
    """Add the amounts of one member to `held`. Return whether the sums are within the limits. If a
    member requests GPU memory, its GPUs are not counted.
    """
    for name, amount in member.items():
        if name not in TERMS and not (name == GPU and MEMORY in member):
            held[name] = held.get(name, 0.0) + amount
    return all(amount <= limits.get(name, amount) for name, amount in held.items())


def why_none(member: Amounts, nodes: Sequence[Amounts]) -> str:
    """Return a sentence about the amounts that one member requests and no node has; "" if some node
    could hold the member.
    """
    asked = ResourceSet.from_mapping(member)
    whole = [node for node in nodes if asked.is_subset(ResourceSet.from_mapping(node))]
    if TERMS.isdisjoint(member):
        could = bool(whole)
    else:
        could = any(empty_node(node).can_ever(asked) for node in whole)
    if could:
        return ""
    largest = {name: max((n.get(name, 0.0) for n in nodes), default=0.0) for name in member}
    lacking = {name: amount for name, amount in member.items() if amount > largest[name]}
    if MPS in lacking:
        return NO_MPS
    if CARDS in lacking and not any(node.get(MEMORY) for node in nodes):
        asks = amounts_text({MEMORY: member[MEMORY]})
        return f"it asks for {asks}, and no node knows the memory of a GPU"
    if not lacking:
        cards = few_cards_text(member, map(_card_sizes, nodes), "the node with the most of them")
        if cards:
            return cards
        return f"no single node has {amounts_text(member)} together"
    if missing := [name for name in profiles_in(lacking) if not largest[name]]:
        parts = profiles_in({name for node in nodes for name, count in node.items() if count})
        only = f"the split GPUs (MIG) have only {', '.join(parts)}"
        why = only if parts else "no GPU is split (MIG)"
        return f"a member asks for {', '.join(missing)}, and {why}"
    if lacking.keys() <= {MEMORY, LIMIT}:
        name = MEMORY if MEMORY in lacking else LIMIT
        asks, has = (f"{round(one / 2**30, 2):g} GiB" for one in (lacking[name], largest[name]))
        return f"a member asks for {asks} of {name} on each GPU, and the largest GPU has {has}"
    has = amounts_text({name: largest[name] for name in lacking})
    asks = amounts_text(lacking)
    return f"a member asks for {asks}, and the largest node has {has}"


def empty_node(totals: Amounts) -> NodeResources:
    """Return a node with these totals on which nothing runs."""
    return NodeResources(totals, cards=_cards(totals))


def _cards(totals: Amounts) -> Cards:
    return totals.cards if isinstance(totals, NodeTotals) else PLAIN


def _card_sizes(totals: Amounts) -> list[int]:
    """Return the bytes of each of a node's GPUs."""
    largest = int(totals.get(MEMORY, 0))
    return [_cards(totals).memory_of(n, largest) for n in range(int(totals.get(GPU, 0)))]
