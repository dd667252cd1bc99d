"""Waits for one descriptor."""

from __future__ import annotations

import select


def wait_for(fileno: int, event: int, timeout_s: float) -> bool:
    """Wait for select.POLLIN or POLLOUT. Returns False if the time is up before.

    The descriptor may have any number, while select.select is limited to numbers below 1024.
    """
    poll = select.poll()
    poll.register(fileno, event)
    return bool(poll.poll(timeout_s * 1000))
