"""Waiting for changes in other processes that send no event: the condition is checked again and
again up to a time limit, never after a fixed sleep.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120
"""The most seconds that a test waits for an event. Machines that run tests are slow at times."""
LOOK_EVERY_S = 0.01


def eventually(
    condition: Callable[[], T], what: str = "the condition", within_s: float = PATIENCE_S
) -> T:
    """Return the first true value of `condition()`. Fails if there is none in time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(LOOK_EVERY_S)
    return found
