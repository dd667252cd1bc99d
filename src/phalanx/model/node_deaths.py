"""How nodes end, and which of their deaths are held against what ran there.

What runs can take its node with it. Tried again elsewhere it takes the next one, and one after the
other the whole cluster. So what two nodes died under is not tried again, whatever retries it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ORDERLY: Final = ""
"""Somebody ended the node, or had it drained before: nobody is to blame."""
LOST: Final = "lost"
"""The node is silent or its connection ended: its machine failed, the network did, or something
that ran there brought it down. Nobody knows."""
KILLED: Final = "killed"
"""The node saw that a process of its own was killed beside it: what ran there did that."""
MOST: Final = 2
"""What so many nodes died under is not tried again."""
WITHIN_S: Final = 86_400.0
"""Deaths that lie further apart have nothing to do with each other: what lives for months sees
machines fail."""


def is_held_against(death: str, *, has_no_limit: bool) -> bool:
    """Whether this death of a node counts for what ran there. `has_no_limit`: its retries are
    unlimited, so whoever asked for it wants it to outlive whatever machines do by themselves."""
    return death == KILLED or (death == LOST and not has_no_limit)


def with_one_more(deaths: Sequence[float], now: float) -> list[float]:
    """The deaths (seconds since the epoch) that count together, with one that happens now."""
    return [at for at in deaths if now - at < WITHIN_S] + [now]


def why_not_again(what: str, reason: str) -> str:
    """Why this is not tried again, for people; `reason`: of the last death."""
    return (
        f"{MOST} nodes died while {what} ran there, so it is not tried again: a third might "
        f"follow. The last one: {reason}"
    )
