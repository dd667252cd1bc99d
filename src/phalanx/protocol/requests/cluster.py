"""Requests to the head about nodes, drivers and the cluster as a whole."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.observe.health import HeadReport
from phalanx.protocol.requests.request import EVERYBODY, NODES, Effect, Request, Role


class NewDriverJob(Request[bytes]):
    """Return the number of a new driver's job, in four bytes. No two drivers get the same
    number.
    """

    kind: ClassVar[int] = 20
    verb: ClassVar[Verb] = Verb.JOIN
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = NODES


class ListNodes(Request[list[NodeInfo]]):
    """List all nodes, including those that died recently."""

    kind: ClassVar[int] = 22
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class GetClusterResources(Request[dict[str, float]]):
    """Return the sum of all living nodes' resources."""

    kind: ClassVar[int] = 23
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class GetAvailableResources(Request[dict[str, float]]):
    """Return the sum of the free amounts of all living nodes that do not drain, by resource.
    Resources of which nothing is free are left out.
    """

    kind: ClassVar[int] = 24
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY


class ListClusterEvents(Request[list[dict[str, Any]]]):
    """List all recorded events of nodes and head (`observe.cluster_events`), the oldest first."""

    kind: ClassVar[int] = 25
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS


class DrainNode(Request[bool]):
    """Drain a node, so that it gets no new work. Returns False if the node already drains.

    `within_s`: the seconds after which the node's work is ended; with 0 the work is not ended, and
    an earlier deadline stays. `by`: the asking user, as USER@HOST. Raises ValueError for an unknown
    node.
    """

    kind: ClassVar[int] = 26
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    reason: str
    by: str = ""
    within_s: float = 0.0


class UndrainNode(Request[bool]):
    """Undo the drain of a node. The node then takes new work, unless something else, such as a
    cordon, prevents that. Returns False if the node does not drain.

    Raises ValueError for an unknown node.
    """

    kind: ClassVar[int] = 120
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str


class NodePool(msgspec.Struct, frozen=True, array_like=True):
    """Nodes that are alike, and that a program starts when work needs them."""

    names: list[str]
    """The names of all nodes that the pool may have."""
    resources: dict[str, float]
    """The resources of each of these nodes."""
    labels: dict[str, str]
    """The labels of each of these nodes."""
    name: str = ""
    """The name of the pool."""
    booting: list[str] = []
    """The names of the nodes whose machines were asked for, and that have not joined yet."""


class DeclarePools(Request[None]):
    """Declare the nodes that may be started when work needs them. Work that would fit on them is
    accepted for the next 15 minutes, although no node can hold it now. The pools replace those that
    were declared before.
    """

    kind: ClassVar[int] = 49
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    pools: list[NodePool]


class ChangeTotals(Request[None]):
    """Set the total amounts of these resources of a node.

    Raises ValueError for an unknown node and for invalid amounts.
    """

    kind: ClassVar[int] = 27
    verb: ClassVar[Verb] = Verb.OPERATE
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    totals: dict[str, float]


class GetStatus(Request[StatusInfo]):
    """Return an overview of the whole cluster; with `is_brief`, without nodes, gangs and placement
    groups.
    """

    kind: ClassVar[int] = 28
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    is_brief: bool = False


class GetHealth(Request[HeadReport]):
    """Return the head's health. One of its facts is how late the head's loop was at most since the
    last request of this type.
    """

    kind: ClassVar[int] = 33
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
