"""Rows of the tokens of people and robots."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class TokenInfo(Row, frozen=True, kw_only=True):
    """A token, without its secrets. Times are in seconds since the epoch."""

    name: str
    id: str
    role: str
    queues: list[str] | None
    """The only queues, with those below them, in which it may act; None: all."""
    created: float
    expires: float | None
    last_used: float
    """To the minute; 0: never."""
    secrets: int
    """How many secrets are valid now: two after it was rotated."""
