"""One placement group at the head: what it asks for, where its bundles are, how it is told."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from phalanx.model.lifecycle import CREATED, PENDING, PREPARED, REMOVED, RESCHEDULING
from phalanx.policies.bundles.request import BundleRequest, BundleStrategy
from phalanx.policies.labels import parse_selector
from phalanx.protocol.wire_errors import code_of
from phalanx.resources.sets import ResourceSet

FIRST_BACKOFF_S, BACKOFF_FACTOR, LONGEST_BACKOFF_S = 0.1, 1.5, 1.0


class GroupRow(msgspec.Struct, kw_only=True):
    """A group as it is stored."""

    group: bytes
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
    is_pinned: bool = False


class Attempt(msgspec.Struct, kw_only=True, eq=False):
    """One try at reserving the bundles that have no node: asked of nodes, then confirmed."""

    number: int
    bundles: dict[str, dict[int, ResourceSet]]
    """By node."""
    domain: str | None
    resend_at: float
    asked: list[str] = []
    awaiting: set[str] = set()
    """Nodes whose answer is not there yet."""


class Group(msgspec.Struct, kw_only=True, eq=False):
    """One placement group. `selectors`: labels for each bundle, or none at all."""

    group: bytes
    name: str
    strategy: str
    bundles: list[ResourceSet]
    creator: bytes
    detached: bool
    selectors: list[dict[str, str]] = []
    soft_target: str | None = None
    """The node that STRICT_PACK takes when it can."""
    domain_label: str | None = None
    """All bundles go to nodes that share one value of this label, `domain` once it is chosen."""
    domain: str | None = None
    state: str = PENDING
    nodes: list[str] = []
    """The node of each bundle; empty where it has none."""
    unconfirmed: list[int] = []
    """Bundles of which it is not known yet that their nodes keep them."""
    is_pinned: bool = False
    """Its bundles go where `GroupTable.place` says, and nowhere by themselves."""
    order: int = 0
    attempt_number: int = 0
    attempt: Attempt | None = None
    asked: BundleRequest | None = None
    """What is asked for the bundles without a node, worked out once."""
    infeasible: str = ""
    """Why no cluster of this shape holds it."""
    waits_for: str = ""
    """Why it is not placed now."""
    shape: int = -1
    """The cluster's shape in which it was infeasible."""
    retry_at: float = 0.0
    backoff_s: float = 0.0
    is_refused: bool = False
    """A node refused it, although it seemed to have room: more news do not shorten the wait."""

    def missing(self) -> list[int]:
        """The bundles that have no node."""
        return [index for index, node in enumerate(self.nodes) if not node]

    def indexes_on(self, node_id: str) -> list[int]:
        """The bundles that this node keeps."""
        return [index for index, node in enumerate(self.nodes) if node == node_id]

    def keeps(self, index: int, node_id: str, number: int, is_committed: bool) -> bool:
        """Whether the node is to hold this bundle, which it has of that attempt."""
        if self.state == REMOVED or index >= len(self.bundles):
            return False
        attempt = self.attempt
        if attempt is not None and attempt.number == number:
            return index in attempt.bundles.get(node_id, ())
        return self.nodes[index] == node_id and is_committed

    def nodes_of(self, index: int) -> list[str]:
        """The nodes that keep the bundle, or any for -1, as far as they have confirmed it."""
        among = range(len(self.nodes)) if index < 0 else [index]
        confirmed = [self.nodes[i] for i in among if i not in self.unconfirmed]
        return [node for node in dict.fromkeys(confirmed) if node]

    def refusal(self, index: int, request: ResourceSet) -> tuple[str, str] | None:
        """(reason, code of an error or "" when it may wait) when nothing can run in this bundle, or
        in any for -1."""
        if index >= len(self.bundles):
            count = len(self.bundles)
            reason = f"its placement group has {count} bundles and no number {index}"
            return (reason, code_of(ValueError))
        chosen = self.bundles if index < 0 else [self.bundles[index]]
        if not any(request.is_subset(bundle) for bundle in chosen):
            reason = f"no bundle of the placement group holds {request.to_mapping()}"
            return (reason, code_of(ValueError))
        if self.infeasible:
            return (f"its placement group waits: {self.infeasible}", "")
        return None

    def back_off(self, now: float, is_refused: bool) -> None:
        """It was tried in vain: the next try comes later, each time by more."""
        longer_s = min(self.backoff_s * BACKOFF_FACTOR, LONGEST_BACKOFF_S)
        self.backoff_s = longer_s or FIRST_BACKOFF_S
        self.retry_at = now + self.backoff_s
        self.is_refused = is_refused

    def grow(self, bundles: list[ResourceSet]) -> None:
        """It is to have these bundles too."""
        self.bundles = [*self.bundles, *bundles]
        self.nodes = [*self.nodes, *[""] * len(bundles)]
        self.asked = None

    def put(self, index: int, node_id: str) -> None:
        """Give the bundle a node, or take it away with an empty id."""
        self.nodes[index] = node_id
        self.asked = None

    def request(self) -> BundleRequest:
        """What is asked of the strategies for the bundles that have no node.

        Raises ValueError for a strategy, selector or bundle that there cannot be.
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
                # What is left of a group holds its others in the domain.
                domain=self.domain if any(self.nodes) else None,
            )
        return self.asked

    def row(self) -> GroupRow:
        """What is stored of it."""
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
            is_pinned=self.is_pinned,
        )

    def facts(self) -> dict[str, Any]:
        """A row for people."""
        return {
            "placement_group_id": self.group.hex(),
            "name": self.name,
            "bundles": {i: bundle.to_mapping() for i, bundle in enumerate(self.bundles)},
            "bundles_to_node_id": dict(enumerate(self.nodes)),
            "strategy": self.strategy,
            "state": self.state,
            "stats": {"scheduling_state": self._scheduling_state()},
        }

    def _scheduling_state(self) -> str:
        if self.state in (CREATED, REMOVED):
            return "FINISHED" if self.state == CREATED else "REMOVED"
        if self.state == PREPARED or self.attempt is not None:
            return "SCHEDULING_STARTED"
        return "INFEASIBLE" if self.infeasible else "NO_RESOURCES"


def restored(row: GroupRow, order: int, now: float) -> Group:
    """The group that was stored as `row`; what it is to keep is asked anew from `now` on."""
    fields = msgspec.structs.asdict(row)
    fields["bundles"] = [ResourceSet.from_mapping(bundle) for bundle in row.bundles]
    if row.is_pinned and row.state == RESCHEDULING:
        fields["state"] = CREATED  # what was on its way is not any more
    group = Group(attempt_number=fields.pop("attempt"), order=order, **fields)
    if group.state == PREPARED:
        bundles: dict[str, dict[int, ResourceSet]] = {}
        for index in group.unconfirmed:
            bundles.setdefault(group.nodes[index], {})[index] = group.bundles[index]
        group.attempt = Attempt(
            number=row.attempt,
            bundles=bundles,
            domain=group.domain,
            resend_at=now,
            asked=list(bundles),
            awaiting=set(bundles),
        )
    return group


def is_first_in_line(group: Group) -> tuple[bool, int]:
    """Those that lost bundles go before those that never had any, then the older ones."""
    return group.state != RESCHEDULING, group.order
