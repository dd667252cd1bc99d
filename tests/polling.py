"""Waiting for what other processes do, where no event tells of it: asked again and again, with an
end, and never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120
"""For everything that has to come: machines that run tests are slow at times."""
LOOK_EVERY_S = 0.01


def eventually(
    condition: Callable[[], T], what: str = "the condition", within_s: float = PATIENCE_S
) -> T:
    """What `condition()` gives once that is true; fails when it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(LOOK_EVERY_S)
    return found
