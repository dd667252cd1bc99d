"""Answers an order of the head that a node could not carry out because of an internal error."""

from __future__ import annotations

from typing import Any

from phalanx.errors import SystemFailureError
from phalanx.model.exit_codes import NOT_STARTED
from phalanx.protocol.actor_messages import ActorRefused, PlaceActor
from phalanx.protocol.bundle_messages import (
    ExtendRun,
    MemberNews,
    PrepareBundles,
    Prepared,
    RunNews,
    StartMember,
)
from phalanx.protocol.wire_errors import code_of


def refusal(order: Any, error: Exception) -> Any:
    """Return the message that ends a failed order, so that nobody waits for the order or repeats
    it; None if nobody waits for it.
    """
    reason = f"an internal error on its node: {type(error).__name__}: {error}"[:300]
    match order:
        case PrepareBundles():
            return Prepared(order.group, order.attempt, False)
        case PlaceActor():
            return ActorRefused(order.actor, reason, code_of(SystemFailureError))
        case StartMember():
            return MemberNews(order.group, order.index, order.attempt, NOT_STARTED, reason)
        case ExtendRun():
            like, last = order.like, order.first + len(order.tasks) - 1
            return RunNews(like.group, like.index, [], returned=(order.first, last))
    return None
