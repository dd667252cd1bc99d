"""The states of a gang's member. `member_lifecycle` says how they follow each other."""

from __future__ import annotations

from typing import Final

ABSENT: Final = "absent"
"""Nobody wants it, yet or for now."""
WAITING: Final = "waiting"
"""It waits for a place."""
PLACING: Final = "placing"
"""Its node is being asked for its bundle."""
RECALLED: Final = "recalled"
"""It was evicted on its way: it gives its place back once it has it, and waits again."""
CANCELLED: Final = "cancelled"
"""It ended on its way: it gives its place back once it has it."""
HELD: Final = "held"
"""It has its bundle."""
EVICTED: Final = "evicted"
"""It has a bundle that is to be given back, and waits again then."""
LEAVING: Final = "leaving"
"""As evicted; its node has been asked to free the bundle."""
OVER: Final = "over"
"""It has a bundle that is to be given back, for good."""
ENDING: Final = "ending"
"""As over; its node has been asked to free the bundle."""
DONE: Final = "done"
"""It has ended, and nothing of it is left."""

PLACELESS: Final = frozenset({ABSENT, WAITING, DONE})
ON_THE_WAY: Final = frozenset({PLACING, RECALLED, CANCELLED})
"""An attempt is under way to place it."""
HAVING: Final = frozenset({HELD, EVICTED, OVER})
"""Its node keeps its bundle."""
GIVING_BACK: Final = frozenset({LEAVING, ENDING})
HOLDING: Final = ON_THE_WAY | HAVING | GIVING_BACK
"""It takes, or may take, something of a node."""
ENDED: Final = frozenset({CANCELLED, OVER, ENDING, DONE})
"""Nobody wants it any more, whatever it still holds."""
GOING: Final = HOLDING - {PLACING, HELD}
"""What it holds will be free soon."""

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
"""What people are shown."""
