"""Listings of what a cluster does and holds, which the head gathers where it is known."""

from __future__ import annotations

from typing import ClassVar

from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class QueryState(Request[StateAnswer]):
    """The rows that a query selects. Answered when all who know of such rows have answered, or the
    query's time is up. Raises ValueError for what cannot be asked (`check_query`)."""

    kind: ClassVar[int] = 29
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    query: StateQuery
