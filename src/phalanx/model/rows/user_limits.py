"""Rows of users' limits."""

from __future__ import annotations

from phalanx.model.rows.row import Row


class UserLimitInfo(Row, frozen=True, kw_only=True):
    """The limits of a user in a queue. A field that is None sets no limit."""

    queue: str
    user: str
    """The user's name; `*` for all users without a row of their own."""
    running: int | None
    waiting: int | None
    gpus: float | None
    priority: int | None
    time_s: float | None
    submits_per_s: float | None
    now_waiting: int | None
    """The number of the user's jobs that wait in the queue and in the queues below it; None for
    `*`.
    """
    now_running: int | None
