"""Decides which messages the head accepts from nodes that have their own keys.

A node with the cluster's token may send every message, and the head accepts the identity that the
node states for the people who ask through it. A node with a key of its own can join and report only
as itself. The head accepts its reports about the work that it was given, but no statement about
another node or a person.
"""

from __future__ import annotations

from typing import Any

from phalanx.errors import NotAllowedError, ProtocolError
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.tokens import Tokens
from phalanx.model.ids import PREFIX_BYTES, node_process_id
from phalanx.protocol.actor_messages import ActorLost, ActorPlaced, ActorRefused
from phalanx.protocol.bundle_messages import (
    BundlesGone,
    Committed,
    FetchPackage,
    LogRead,
    MemberNews,
    MemberPrepares,
    MemberUsed,
    MemberUseRead,
    Prepared,
    RunNews,
    StepEnded,
    StepStarted,
)
from phalanx.protocol.cluster_messages import ForwardedAsk, ProcessEnded
from phalanx.protocol.frames import decode_body
from phalanx.protocol.membership_messages import Join, Leave, Reported
from phalanx.protocol.report_messages import (
    DevicesSeen,
    EventsReported,
    MachineSeen,
    NodeLogRead,
    NodeNumbers,
    NodeReport,
    NodeUseRead,
    StateReported,
)
from phalanx.protocol.requests.groups import WatchGroup
from phalanx.protocol.requests.view import GetViewChanges

OF_ITSELF = (
    *(
        NodeReport,
        Leave,
        MemberNews,
        FetchPackage,
        MemberPrepares,
        MemberUsed,
        RunNews,
        StepEnded,
        StepStarted,
        LogRead,
        MemberUseRead,
        MachineSeen,
        NodeUseRead,
    ),
    *(Prepared, Committed, BundlesGone, DevicesSeen, ActorPlaced, ActorRefused),
    *(StateReported, EventsReported, NodeLogRead, NodeNumbers),
)
"""Messages that the head accepts if they concern only the node that sends them."""
_ASKS = (GetViewChanges.kind, WatchGroup.kind)
"""Requests that a node makes for itself."""


class NodeKeys:
    """Decides which messages of nodes with their own keys are accepted."""

    def __init__(self, tokens: Tokens, nodes: NodeDirectory) -> None:
        self._tokens = tokens
        self._nodes = nodes

    def is_own_prefix(self, key: str, prefix: bytes) -> bool:
        """Whether the node with this key may connect with this prefix of its processes' ids. The
        prefix must be new, or must belong to this node already.
        """
        name, record = self._tokens.node_of(key), self._nodes.of_prefix(prefix)
        return name is not None and (record is None or record.hostname == name)

    def refusal(self, key: str, prefix: bytes, message: Any) -> NotAllowedError | None:
        """Return why a message is refused; None if it is accepted. `key`: the id of the token that
        is the node's key; "" if the node has the cluster's token.

        If a node's name has a key, only the node with that key may use the name.
        """
        if not key:
            taken = isinstance(message, Join) and self._tokens.has_node_key(message.hostname)
            return NotAllowedError(_WANTED.format(message.hostname)) if taken else None
        name = self._tokens.node_of(key)
        if name is None:
            return NotAllowedError("the key of this node was revoked, or has expired")
        # drop reports about other things: dead nodes, and actors of drivers
        if isinstance(message, Join):
            message.given_up, message.actors = [], {}
        return (
            None if _is_its_own(name, prefix, message) else NotAllowedError(_REFUSED.format(name))
        )


_WANTED = "the name {} is that of a node with a key of its own: join with that key"
_REFUSED = (
    "this node has a key, with which it joins as {} and reports, and nothing else: ask the head "
    "from elsewhere, or start the node with the cluster's token"
)


def _is_its_own(name: str, prefix: bytes, message: Any) -> bool:
    match message:
        case Join():
            return message.hostname == name and message.row.prefix == prefix
        case Reported():
            try:
                inner = decode_body(message.body)
            except ProtocolError:
                return False
            return all(not isinstance(m, Join) and _is_its_own(name, prefix, m) for m in inner)
        case ForwardedAsk():
            is_for_itself = message.origin == node_process_id(prefix) and message.principal is None
            return is_for_itself and message.kind in _ASKS
        case ActorLost():
            return message.worker[:PREFIX_BYTES] == prefix
        case ProcessEnded():
            return message.process[:PREFIX_BYTES] == prefix
    return isinstance(message, OF_ITSELF)
