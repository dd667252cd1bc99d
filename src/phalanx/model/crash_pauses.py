"""The pause before anything that crashed starts again: no pause after the first crash, then longer
and longer pauses.

Without pauses, an actor, a task or a job that crashes at once would start again and again, and each
start costs the machine a process.
"""

from __future__ import annotations

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""Seconds of run time after which an actor or a member of a job counts as healthy. Its next crash
then counts as its first.
"""
_MOST_DOUBLINGS = 16


def pause_s(
    crashes: int, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
) -> float:
    """Return the pause in seconds after `crashes` crashes in a row.

    The pause is 0 after the first crash, `first_s` after the second, and twice as long after each
    further crash, up to `longest_s`.
    """
    if crashes <= 1:
        return 0.0
    pause: float = min(first_s * 2.0 ** min(crashes - 2, _MOST_DOUBLINGS), longest_s)
    return pause
