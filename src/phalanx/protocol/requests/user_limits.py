"""Requests to the head about users' limits in queues."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.model.rows.user_limits import UserLimitInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class SetLimits(Request[list[UserLimitInfo]]):
    """Set limits of a user in a queue, by their names in `model.user_limits`.

    A limit of None is removed. The user's other limits stay. Returns the queue's rows. Raises
    QueueUnavailableError for an unknown queue, and JobCommandError for a limit that does not exist
    or is not allowed.
    """

    kind: ClassVar[int] = 15
    verb: ClassVar[Verb] = Verb.OPERATE
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str
    user: str
    limits: dict[str, float | None]


class ListLimits(Request[list[UserLimitInfo]]):
    """Return users' limits in one queue, or in all, with the current values."""

    kind: ClassVar[int] = 16
    verb: ClassVar[Verb] = Verb.SEE
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str = ""
