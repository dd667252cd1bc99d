"""Rows of users' shares."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ShareInfo(Row, frozen=True):
    """A user of a queue: the user's shares, and past use."""

    queue: str
    user: str
    shares: float
    is_set: bool
    """Whether the shares were set; a user without set shares has one."""
    part: float
    """The part of the shares of all users of the queue, from 0 to 1."""
    use: float
    """Billing units × seconds; the value halves with every half-life."""
    use_part: float
    """The part of the use of all users of the queue, from 0 to 1."""
    level_fairshare: float | None
    """`part` divided by `use_part`; None: infinite, because nothing was used."""
    rank: int
    """The rank: the user with the highest rank is next; users with equal ranks are tied."""
    rate: float
    """Billing units that the user's work holds now."""
