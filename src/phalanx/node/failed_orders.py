"""What a node answers to an order of the head that it failed at, by an error of its own."""

from __future__ import annotations

from typing import Any

from phalanx.errors import SystemFailureError
from phalanx.model.exit_codes import NOT_STARTED
from phalanx.protocol.bundle_messages import MemberNews, PrepareBundles, Prepared, StartMember
from phalanx.protocol.cluster_messages import ActorRefused, PlaceActor
from phalanx.protocol.wire_errors import code_of


def refusal(order: Any, error: Exception) -> Any:
    """The news that ends what was ordered, so that nothing waits for it and it is not ordered again
    and again; None where nobody waits."""
    reason = f"its node failed at it: {type(error).__name__}: {error}"[:300]
    match order:
        case PrepareBundles():
            return Prepared(order.group, order.attempt, False)
        case PlaceActor():
            return ActorRefused(order.actor, reason, code_of(SystemFailureError))
        case StartMember():
            return MemberNews(order.group, order.index, order.attempt, NOT_STARTED, reason)
    return None
