"""Requests to the head about the usage of jobs, from its history."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.observe.accounting.questions import AttemptPage, AttemptQuery, UsageQuery, UsageRow
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class ListAttempts(Request[AttemptPage]):
    """List attempts of ended jobs, the latest first.

    Raises ValueError for an invalid query, and HistoryUnavailableError where no history is kept or
    its file cannot be read.
    """

    kind: ClassVar[int] = 116
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    query: AttemptQuery


class GetUsage(Request[list[UsageRow]]):
    """Return the usage of jobs in a period, by user and queue. Raises the same errors as
    ListAttempts.
    """

    kind: ClassVar[int] = 117
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    query: UsageQuery
