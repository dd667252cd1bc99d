"""Requests to the head about users' shares."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class GetShares(Request[list[ShareInfo]]):
    """List the shares and the past usage of the users of one queue, or of all queues, by queue and
    name. Users who were given no shares and have used nothing are left out.
    """

    kind: ClassVar[int] = 93
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str = ""


class SetShares(Request[list[ShareInfo]]):
    """Set the shares of users of a queue; None gives a user the default of one share again. Returns
    the rows of the queue's users.

    Raises JobCommandError for an unknown queue, and for invalid shares.
    """

    kind: ClassVar[int] = 94
    verb: ClassVar[Verb] = Verb.RAISE
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str
    shares: dict[str, float | None]
