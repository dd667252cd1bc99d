"""What the head answers about users' shares."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class GetShares(Request[list[ShareInfo]]):
    """The users of a queue, or of all, by queue and name: those with shares, and those who used
    something."""

    kind: ClassVar[int] = 93
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str = ""


class SetShares(Request[list[ShareInfo]]):
    """Users of a queue have these shares from now on; None: one, as if nobody had said. The rows of
    the queue. Raises JobCommandError for a queue that there is not, and for shares that cannot
    be."""

    kind: ClassVar[int] = 94
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    queue: str
    shares: dict[str, float | None]
