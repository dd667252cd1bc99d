"""Rows of users' shares."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ShareInfo(Row, frozen=True):
    """A user of a queue: what they may use of it against the others, and what they have used."""

    queue: str
    user: str
    shares: float
    is_set: bool
    """Whether somebody has set the shares; who has none set has one."""
    part: float
    """Of the shares of all users of the queue, from 0 to 1."""
    use: float
    """Billing units times seconds, of which half is forgotten after each half-life."""
    use_part: float
    """Of what all users of the queue have used, from 0 to 1."""
    level_fairshare: float | None
    """`part` over `use_part`; None: nothing was used, so it is infinite."""
    rank: int
    """The highest is next; users with equal ones are tied."""
    rate: float
    """Billing units that they hold now."""
