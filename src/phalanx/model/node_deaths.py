"""How nodes end, and which of their deaths count against the work that ran there.

Running work can take its node down. Tried again elsewhere it takes the next one down, and one after
the other the whole cluster. So work under which two nodes died is not tried again, whatever retries
it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ORDERLY: Final = ""
"""The node was ended or drained on purpose: no work is to blame."""
LOST: Final = "lost"
"""The node is silent or its connection ended, for an unknown reason.

Its machine failed, the network did, or work that ran there brought it down.
"""
KILLED: Final = "killed"
"""The node saw that another of its own processes was killed: work that ran there did that."""
MOST: Final = 2
"""The number of nodes that may die under work before it is not tried again."""
WITHIN_S: Final = 86_400.0
"""Seconds between deaths that have nothing to do with each other: long-lived work sees machines
fail."""


def is_held_against(death: str, *, has_no_limit: bool) -> bool:
    """Whether this death of a node counts against the work that ran there.

    `has_no_limit`: its retries are unlimited, so it is meant to outlive failures of machines.
    """
    return death == KILLED or (death == LOST and not has_no_limit)


def with_one_more(deaths: Sequence[float], now: float) -> list[float]:
    """Return the deaths (seconds since the epoch) that count together, with one that happens
    now."""
    return [at for at in deaths if now - at < WITHIN_S] + [now]


def why_stopped(what: str, reason: str) -> str:
    """Return why work is stopped that has killed processes of its nodes, for display.

    `reason` is that of the last time.
    """
    return (
        f"{what} has taken its node or its parent process along {MOST} times, so it is not tried "
        f"again: it poisons its nodes. The last time: {reason}"
    )


PARENT_KILLED: Final = (
    "it ended because its parent process was killed, most likely by itself (kill -9 $PPID)"
)
"""Why a process has ended."""


def why_not_again(what: str, reason: str) -> str:
    """Return why this is not tried again, for display; `reason` is that of the last death."""
    return (
        f"{MOST} nodes died while {what} ran there, so it is not tried again: a third might "
        f"follow. The last one: {reason}"
    )
