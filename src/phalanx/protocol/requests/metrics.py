"""Numbers for who watches a cluster."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.observe.metrics.definitions import Numbers
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role

MAX_NODES = 1_000
"""In one answer."""


class MetricsSince(msgspec.Struct, array_like=True, frozen=True):
    """How far who asks has heard of nodes. `head` stands for the head that said so: another one
    begins anew."""

    head: float = 0.0
    version: int = 0


class NodeMetrics(msgspec.Struct, array_like=True):
    """What a node said last: a list of Numbers, as msgpack. Their labels lack `node`."""

    node_id: str
    hostname: str
    numbers: bytes


class MetricsNews(msgspec.Struct, array_like=True):
    """What the head counts, and what has changed of nodes' numbers."""

    since: MetricsSince
    is_new: bool
    """What was heard of nodes before is void."""
    is_more: bool
    """Ask again: there are more than MAX_NODES."""
    own: list[Numbers]
    nodes: list[NodeMetrics]
    gone: list[str]
    """The ids of nodes that are dead or forgotten."""


class GetMetrics(Request[MetricsNews]):
    """What the head and its nodes have counted."""

    kind: ClassVar[int] = 95
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    since: MetricsSince
