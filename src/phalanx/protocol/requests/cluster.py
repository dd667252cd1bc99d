"""What the head answers about nodes, drivers and the cluster as a whole."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.observe.health import HeadReport
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.requests.request import EVERYBODY, NODES, Effect, Request, Role


class NewDriverJob(Request[bytes]):
    """The number of a new driver's job, in four bytes."""

    kind: ClassVar[int] = 20
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = NODES


class ViewChanges(msgspec.Struct, array_like=True):
    """The nodes that changed, and the version of the view that has these changes."""

    version: int
    rows: list[ViewRow]


class GetViewChanges(Request[ViewChanges]):
    """The nodes that changed after version `since` of the view."""

    kind: ClassVar[int] = 21
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = NODES

    since: int


class ListNodes(Request[list[NodeInfo]]):
    """All nodes, the dead of late too."""

    kind: ClassVar[int] = 22
    effect: ClassVar[Effect] = Effect.READS


class GetClusterResources(Request[dict[str, float]]):
    """What all living nodes have together."""

    kind: ClassVar[int] = 23
    effect: ClassVar[Effect] = Effect.READS


class GetAvailableResources(Request[dict[str, float]]):
    """What is free on nodes that do not drain; a resource that is used up is not named."""

    kind: ClassVar[int] = 24
    effect: ClassVar[Effect] = Effect.READS


class ListClusterEvents(Request[list[dict[str, Any]]]):
    """What all nodes and the head recorded (`observe.cluster_events`), oldest first."""

    kind: ClassVar[int] = 25
    effect: ClassVar[Effect] = Effect.READS


class DrainNode(Request[bool]):
    """Give a node nothing new. False when it drains already. Raises ValueError for a node that
    there is not.

    `within_s`: what runs there so much later is ended; 0: it runs on, and a deadline that was given
    before stays. `by`: who asks, as USER@HOST.
    """

    kind: ClassVar[int] = 26
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    reason: str
    by: str = ""
    within_s: float = 0.0


class UndrainNode(Request[bool]):
    """Let a node have new work again, unless something else holds it. False when it does not
    drain. Raises ValueError for a node that there is not."""

    kind: ClassVar[int] = 120
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str


class ChangeTotals(Request[None]):
    """A node has so much of these resources from now on. Raises ValueError for a node that there
    is not, and for amounts that cannot be."""

    kind: ClassVar[int] = 27
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node_id: str
    totals: dict[str, float]


class GetStatus(Request[StatusInfo]):
    """The whole cluster at a glance; `is_brief`: without its nodes, gangs and
    placement groups."""

    kind: ClassVar[int] = 28
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    is_brief: bool = False


class GetHealth(Request[HeadReport]):
    """How well the head is. Its lag is the longest since it was asked last, by whomever."""

    kind: ClassVar[int] = 33
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
