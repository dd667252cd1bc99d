"""Rows of users' shares."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class ShareInfo(Row, frozen=True):
    """A user's shares in a queue, and the user's past use of the queue."""

    queue: str
    user: str
    shares: float
    is_set: bool
    """Whether the user's shares were set; otherwise the user has one share."""
    part: float
    """The user's shares as a part of the shares of all users of the queue, from 0 to 1."""
    use: float
    """The past use in billing units × seconds. The use halves with every half-life."""
    use_part: float
    """The user's use as a part of the use of all users of the queue, from 0 to 1."""
    level_fairshare: float | None
    """`part` divided by `use_part`; None for an infinite quotient, because nothing was used."""
    rank: int
    """The user's rank. The work of the user with the highest rank starts first; users in the same
    position have the same rank.
    """
    rate: float
    """The billing units that the user's work holds now."""
