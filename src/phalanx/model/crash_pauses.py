"""How long anything that crashes rests before it starts again: not at all the first time, then ever
longer.

An actor, a task or a job that crashes as soon as it lives would start without end, and each start
costs a process.
"""

from __future__ import annotations

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""An actor or a member of a job that has lived for so long is well: its next crash counts as the
first."""
_MOST_DOUBLINGS = 16


def pause_s(
    crashes: int, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S
) -> float:
    """The pause after that many crashes in a row: 0 after the first, `first_s` after the second,
    and twice as long after each further one, up to `longest_s`."""
    if crashes <= 1:
        return 0.0
    pause: float = min(first_s * 2.0 ** min(crashes - 2, _MOST_DOUBLINGS), longest_s)
    return pause
