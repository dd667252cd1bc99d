"""Requests for metrics of a cluster."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.observe.metrics.definitions import Numbers
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role

MAX_NODES = 1_000
"""The largest number of nodes in one answer."""


class MetricsSince(msgspec.Struct, array_like=True, frozen=True):
    """Says which metrics of nodes the asker already has.

    `head` identifies the head that sent these metrics; another head sends all metrics again.
    """

    head: float = 0.0
    version: int = 0


class NodeMetrics(msgspec.Struct, array_like=True):
    """The latest metrics of a node: a list of Numbers without the label `node`, as msgpack."""

    node_id: str
    hostname: str
    numbers: bytes


class MetricsNews(msgspec.Struct, array_like=True):
    """The head's metrics, and the nodes' metrics that have changed."""

    since: MetricsSince
    is_new: bool
    """Whether the asker must forget all metrics of nodes that it has."""
    is_more: bool
    """Whether the metrics of more than MAX_NODES nodes have changed, so that the asker must ask
    again.
    """
    own: list[Numbers]
    nodes: list[NodeMetrics]
    gone_nodes: list[str]
    """The ids of nodes that have died or were forgotten."""


class GetMetrics(Request[MetricsNews]):
    """Return the metrics of the head and its nodes."""

    kind: ClassVar[int] = 95
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    since: MetricsSince
