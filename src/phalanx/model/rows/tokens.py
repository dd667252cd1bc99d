"""Rows of the tokens of people and robots."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class TokenInfo(Row, frozen=True, kw_only=True):
    """A token, without its secrets. Times are in seconds since the epoch."""

    name: str
    id: str
    role: str
    queues: list[str] | None
    """The queues to which the token is limited, which include the queues below them; None for all
    queues.
    """
    created: float
    expires: float | None
    last_used: float
    """The last use, to the minute; 0 if it was never used."""
    secrets: int
    """The number of secrets that are valid now; there are two after a rotation."""
