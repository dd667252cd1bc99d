"""The record of a placement group at the head: its request, the nodes of its bundles, and its rows
for display.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, cast

import msgspec

from phalanx.head.groups.two_phase_commit import Attempt
from phalanx.model.ids import GroupId
from phalanx.model.lifecycle import CREATED, PENDING, PREPARED, REMOVED, RESCHEDULING
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.bundles.request import BundleRequest, BundleStrategy
from phalanx.scheduler.placement.labels import parse_selector

FIRST_BACKOFF_S, BACKOFF_FACTOR, LONGEST_BACKOFF_S = 0.1, 1.5, 1.0


class GroupRow(msgspec.Struct, kw_only=True):
    """A group as the store keeps it."""

    group: GroupId
    name: str
    strategy: str
    bundles: list[dict[str, float]]
    selectors: list[dict[str, str]]
    soft_target: str | None
    domain_label: str | None
    domain: str | None
    creator: bytes
    detached: bool
    state: str
    nodes: list[str]
    unconfirmed: list[int]
    attempt: int
    namespace: str = ""
    created_after_s: float | None = None


class KnownGroup(Protocol):
    """A placement group as other parts see it: a group that a program made, or the bundles of a
    gang.
    """

    @property
    def group(self) -> GroupId:
        """The group's id."""
        ...

    @property
    def name(self) -> str:
        """The group's name; empty for most."""
        ...

    @property
    def strategy(self) -> str:
        """The strategy, in Ray's terms."""
        ...

    @property
    def bundles(self) -> Sequence[ResourceSet]:
        """The resources of each bundle."""
        ...

    @property
    def state(self) -> str:
        """One of the states of `model.lifecycle.GROUP`."""
        ...

    @property
    def nodes(self) -> Sequence[str]:
        """The node of each bundle; empty for a bundle without a node."""
        ...

    @property
    def unconfirmed(self) -> Collection[int]:
        """The bundles that their nodes have not confirmed yet."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether work that waits for the group may run in it."""
        ...

    @property
    def is_under_way(self) -> bool:
        """Whether nodes are being asked for the group's bundles."""
        ...

    @property
    def infeasible(self) -> str:
        """Why the cluster's nodes cannot hold the group, even if nothing else runs on them; "" if
        they can.
        """
        ...


class Group(msgspec.Struct, kw_only=True, eq=False):
    """A placement group. `selectors`: the required labels of each bundle, or an empty list."""

    group: GroupId
    name: str
    strategy: str
    bundles: list[ResourceSet]
    creator: bytes
    detached: bool
    selectors: list[dict[str, str]] = []
    soft_target: str | None = None
    """The node that STRICT_PACK prefers."""
    domain_label: str | None = None
    """The label whose value all nodes of the group must share. Once the value is chosen, it is in
    `domain`.
    """
    domain: str | None = None
    namespace: str = ""
    """The namespace in which the group's name is unique."""
    state: str = PENDING
    nodes: list[str] = []
    """The node of each bundle; empty for a bundle without a node."""
    unconfirmed: list[int] = []
    """The bundles that their nodes have not confirmed yet."""
    order: int = 0
    tries: int = 0
    """How often this head has looked for nodes for the group."""
    asked_at: float | None = None
    """When this head received the request for the group, on the head's clock; None if an earlier
    head received it.
    """
    created_after_s: float | None = None
    """Seconds from the request until all of the group's bundles were placed for the first time."""
    attempt_number: int = 0
    is_under_way: bool = False
    """Whether an attempt to place the group is in progress."""
    asked: BundleRequest | None = None
    """The request for the bundles that have no node. The request is computed once and kept."""
    infeasible: str = ""
    """Why the cluster's nodes cannot hold the group, even if nothing else runs on them."""
    waits_for: str = ""
    """The reason why the group has not been placed yet."""
    shape: int = -1
    """The number of the cluster's shape (`ClusterNodes.shape`) when the group last found no place.
    An infeasible group is not tried again while this number stays the same.
    """
    retry_at: float = 0.0
    backoff_s: float = 0.0
    is_refused: bool = False
    """Whether a node refused the group although it seemed to have room. If so, news of free
    resources does not shorten the wait.
    """

    @property
    def has_begun(self) -> bool:
        """Whether work that waits for the group may run in it."""
        return self.state == CREATED

    def missing(self) -> list[int]:
        """Return the bundles that have no node."""
        return [index for index, node in enumerate(self.nodes) if not node]

    def held(self) -> dict[str, list[int]]:
        """Return the bundles that each node holds."""
        found: dict[str, list[int]] = {}
        for index, node in enumerate(self.nodes):
            if node:
                found.setdefault(node, []).append(index)
        return found

    def indexes_on(self, node_id: str) -> list[int]:
        """Return the indexes of the bundles that are on this node."""
        return [index for index, node in enumerate(self.nodes) if node == node_id]

    def back_off(self, now: float, is_refused: bool) -> None:
        """Delay the next try after a failed try. The delay grows with each failure."""
        longer_s = min(self.backoff_s * BACKOFF_FACTOR, LONGEST_BACKOFF_S)
        self.backoff_s = longer_s or FIRST_BACKOFF_S
        self.retry_at = now + self.backoff_s
        self.is_refused = is_refused

    def put(self, index: int, node_id: str) -> None:
        """Set the node of a bundle; an empty id removes the node."""
        self.nodes[index] = node_id
        self.asked = None

    def request(self) -> BundleRequest:
        """Return the request that a strategy gets: the bundles that have no node.

        Raises ValueError for an impossible strategy, selector or bundle.
        """
        if self.asked is None:
            missing = self.missing()
            chosen = [self.selectors[i] for i in missing] if self.selectors else []
            self.asked = BundleRequest(
                bundles=tuple(self.bundles[index] for index in missing),
                strategy=cast(BundleStrategy, self.strategy),
                selectors=tuple(parse_selector(selector) for selector in chosen),
                soft_target=self.soft_target,
                occupied=frozenset(node for node in self.nodes if node),
                domain_label=self.domain_label,
                # The bundles that have nodes decide the domain of the other bundles.
                domain=self.domain if any(self.nodes) else None,
            )
        return self.asked

    def row(self) -> GroupRow:
        """Return the row that is stored for the group."""
        return GroupRow(
            group=self.group,
            name=self.name,
            strategy=self.strategy,
            bundles=[bundle.to_mapping() for bundle in self.bundles],
            selectors=self.selectors,
            soft_target=self.soft_target,
            domain_label=self.domain_label,
            domain=self.domain,
            creator=self.creator,
            detached=self.detached,
            state=self.state,
            nodes=list(self.nodes),
            unconfirmed=list(self.unconfirmed),
            attempt=self.attempt_number,
            namespace=self.namespace,
            created_after_s=self.created_after_s,
        )


def restored(row: GroupRow, order: int) -> tuple[Group, Attempt | None]:
    """Return the group of a stored `row` and, if the store has a prepared attempt of the group,
    that attempt.
    """
    fields = msgspec.structs.asdict(row)
    fields["bundles"] = [ResourceSet.from_mapping(bundle) for bundle in row.bundles]
    group = Group(attempt_number=fields.pop("attempt"), order=order, **fields)
    if group.state != PREPARED:
        return group, None
    bundles: dict[str, list[int]] = {}
    for index in group.unconfirmed:
        bundles.setdefault(group.nodes[index], []).append(index)
    attempt = Attempt(group=group.group, number=row.attempt, bundles=bundles, domain=group.domain)
    return group, attempt


def nodes_of(group: KnownGroup, index: int) -> list[str]:
    """Return the node that has confirmed the bundle; for index -1, the nodes that have confirmed
    any bundle.
    """
    among = range(len(group.nodes)) if index < 0 else [index]
    confirmed = [group.nodes[i] for i in among if i not in group.unconfirmed]
    return [node for node in dict.fromkeys(confirmed) if node]


def refusal(group: KnownGroup, index: int, request: ResourceSet) -> tuple[str, str] | None:
    """Return why work cannot run in this bundle, as (reason, code of an error); None if the work
    can run. Index -1 means any bundle. If the work may wait, the code is "".
    """
    if index >= len(group.bundles):
        count = len(group.bundles)
        reason = f"its placement group has {count} bundles, and none has index {index}"
        return (reason, code_of(ValueError))
    chosen = group.bundles if index < 0 else [group.bundles[index]]
    if not any(request.is_subset(bundle) for bundle in chosen):
        reason = f"no bundle of the placement group holds {request.to_mapping()}"
        return (reason, code_of(ValueError))
    # otherwise other bundles of the group were lost
    if group.infeasible and not nodes_of(group, index):
        return (f"its placement group waits: {group.infeasible}", "")
    return None


def facts(group: KnownGroup) -> dict[str, Any]:
    """Return the group's row for listings."""
    return {
        "placement_group_id": group.group.hex(),
        "name": group.name,
        "bundles": {i: bundle.to_mapping() for i, bundle in enumerate(group.bundles)},
        "bundles_to_node_id": dict(enumerate(group.nodes)),
        "strategy": group.strategy,
        "state": group.state,
        "stats": _stats(group),
    }


def _stats(group: KnownGroup) -> dict[str, Any]:
    """Return Ray's figures about the placement. For the bundles of a gang, which the gang scheduler
    places, return only the state.
    """
    stats: dict[str, Any] = {"scheduling_state": _scheduling_state(group)}
    if isinstance(group, Group):
        stats["scheduling_attempt"] = group.tries
        stats["end_to_end_creation_latency_ms"] = 1000 * (group.created_after_s or 0.0)
    return stats


def _scheduling_state(group: KnownGroup) -> str:
    if group.state in (CREATED, REMOVED):
        return "FINISHED" if group.state == CREATED else "REMOVED"
    if group.state == PREPARED or group.is_under_way:
        return "SCHEDULING_STARTED"
    return "INFEASIBLE" if group.infeasible else "NO_RESOURCES"


def settling_order(group: Group) -> tuple[bool, int]:
    """Return the sort key by which groups are placed. Groups that lost bundles come before groups
    that never had any; among equals, older groups come first.
    """
    return group.state != RESCHEDULING, group.order
