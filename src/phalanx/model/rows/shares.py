"""Rows of users' shares."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ShareInfo(Row, frozen=True):
    """A user of a queue: the user's shares among others, and past use."""

    queue: str
    user: str
    shares: float
    is_set: bool
    """Whether the shares were set; a user without set shares has one."""
    part: float
    """The part of the shares of all users of the queue, from 0 to 1."""
    use: float
    """Billing units times seconds, of which half is forgotten after each half-life."""
    use_part: float
    """The part of the use of all users of the queue, from 0 to 1."""
    level_fairshare: float | None
    """`part` over `use_part`; None: nothing was used, so it is infinite."""
    rank: int
    """The highest is next; users with equal ones are tied."""
    rate: float
    """Billing units that the user's work holds now."""
