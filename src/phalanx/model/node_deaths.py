"""The causes of the ends of nodes, and which of these ends count against the work that ran on the
node.

Running work can bring its node down. If such work is tried again elsewhere, it brings down the next
node, and so on, until the whole cluster is down. So work is not tried again after two nodes died
under it, even if it has retries left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ORDERLY: Final = ""
"""The node was ended or drained on purpose, so work did not cause its end."""
LOST: Final = "lost"
"""The node is silent, or its connection ended, and the reason is unknown. Either the machine or the
network failed, or work that ran there brought the node down.
"""
KILLED: Final = "killed"
"""One of the node's helper processes was killed, which only the work on the node can have done."""
MOST: Final = 2
"""The number of nodes that may die under work; after that, the work is not tried again."""
WITHIN_S: Final = 86_400.0
"""Deaths of nodes that are at least this many seconds apart count as unrelated, because machines
can fail for other reasons while work runs for a long time.
"""


def is_held_against(death: str, *, has_no_limit: bool) -> bool:
    """Whether the death of a node counts against the work that ran there.

    The cause `KILLED` always counts. The cause `LOST` counts unless `has_no_limit` is true: the
    retries of the work are then unlimited, so it is meant to outlive failures of machines.
    """
    return death == KILLED or (death == LOST and not has_no_limit)


def with_one_more(deaths: Sequence[float], now: float) -> list[float]:
    """Return the times of deaths (in seconds since the epoch) that count as related: those in
    `deaths` from the last WITHIN_S seconds, and `now`.
    """
    return [at for at in deaths if now - at < WITHIN_S] + [now]


def why_stopped(what: str, reason: str) -> str:
    """Return the text that says why work that has killed processes of its nodes is stopped.
    `reason` is the reason of the last death.
    """
    return (
        f"{what} has taken its node or its parent process along {MOST} times, so it is not tried "
        f"again: it poisons its nodes. The last time: {reason}"
    )


PARENT_KILLED: Final = (
    "it ended because its parent process was killed, most likely by itself (kill -9 $PPID)"
)
"""The reason that is given for the end of a process whose parent was killed."""


def why_not_again(what: str, reason: str) -> str:
    """Return the text that says why work is not tried again; `reason` is the reason of the last
    death.
    """
    return (
        f"{MOST} nodes died while {what} ran there, so it is not tried again: a third might "
        f"follow. The last one: {reason}"
    )
