"""Waiting for one descriptor."""

from __future__ import annotations

import select


def wait_for(fileno: int, event: int, timeout_s: float) -> bool:
    """Wait for select.POLLIN or POLLOUT; False when the time is up.

    It takes any descriptor, while select.select stops at 1024.
    """
    poll = select.poll()
    poll.register(fileno, event)
    return bool(poll.poll(timeout_s * 1000))
