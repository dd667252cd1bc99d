"""The requests for the usage of nodes."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.node_use import NodeUse
from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class GetNodeUse(Request[NodeUse]):
    """Return the usage of a node over the last `span_s` seconds, and the processes that run on it.

    Raises ValueError for an unknown node, and StateQueryError for a node that does not answer.
    """

    kind: ClassVar[int] = 97
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    node: str
    """The node's id in hex."""
    span_s: float = 900.0


class ListNodesInUse(Request[dict[str, dict[str, float]]]):
    """Return the amounts that are in use on the machine of each node, by the node's id in hex and
    by resource: CPU, memory (in bytes) and GPU. Nodes without a report of the last minute are left
    out.
    """

    kind: ClassVar[int] = 78
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY
