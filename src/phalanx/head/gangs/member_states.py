"""The states of a gang's member. `member_lifecycle` defines their transitions."""

from __future__ import annotations

from typing import Final

ABSENT: Final = "absent"
"""The member's job does not want the member yet, or does not want it at present."""
WAITING: Final = "waiting"
"""The member waits for a place."""
PLACING: Final = "placing"
"""The member's node is being asked for the member's bundle."""
RECALLED: Final = "recalled"
"""The member was evicted on its way. Once it has its place, it gives the place back and waits
again.
"""
CANCELLED: Final = "cancelled"
"""The member ended on its way. Once it has its place, it gives the place back."""
HELD: Final = "held"
"""The member has its bundle."""
EVICTED: Final = "evicted"
"""The member was evicted, and its bundle must be given back. After that the member waits again."""
LEAVING: Final = "leaving"
"""Like EVICTED, but the member's node has been asked to free the bundle."""
OVER: Final = "over"
"""The member is over, and its bundle must be given back."""
ENDING: Final = "ending"
"""Like OVER, but the member's node has been asked to free the bundle."""
DONE: Final = "done"
"""The member has ended and holds nothing."""

PLACELESS: Final = frozenset({ABSENT, WAITING, DONE})
ON_THE_WAY: Final = frozenset({PLACING, RECALLED, CANCELLED})
"""The states in which an attempt to place the member is in progress."""
HAVING: Final = frozenset({HELD, EVICTED, OVER})
"""The states of members whose bundle is kept by their node."""
GIVING_BACK: Final = frozenset({LEAVING, ENDING})
HOLDING: Final = ON_THE_WAY | HAVING | GIVING_BACK
"""The states in which the member takes, or may take, resources of a node."""
ENDED: Final = frozenset({CANCELLED, OVER, ENDING, DONE})
"""The states in which the member is no longer wanted, even if it still holds something."""
GOING: Final = HOLDING - {PLACING, HELD}
"""The states in which the member's resources will be free soon."""

SHOWN: Final = {
    ABSENT: "absent",
    WAITING: "pending",
    PLACING: "starting",
    RECALLED: "starting",
    CANCELLED: "ending",
    HELD: "running",
    EVICTED: "leaving",
    LEAVING: "leaving",
    OVER: "ending",
    ENDING: "ending",
    DONE: "ended",
}
"""The words with which states are displayed."""
