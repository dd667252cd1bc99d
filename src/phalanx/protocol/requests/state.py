"""Requests for listings of a cluster's state, which the head gathers from nodes and processes."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.observe.state.query import StateAnswer, StateQuery
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class QueryState(Request[StateAnswer]):
    """Return the rows that a query selects.

    The answer comes when all nodes and processes with such rows have answered, or when the query's
    time is over. Raises ValueError for an invalid query (`check_query`).
    """

    kind: ClassVar[int] = 29
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    query: StateQuery
