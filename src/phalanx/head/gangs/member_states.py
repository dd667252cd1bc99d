"""The states of a gang's member. `member_lifecycle` defines their transitions."""

from __future__ import annotations

from typing import Final

ABSENT: Final = "absent"
"""Its job does not want it, yet or for now."""
WAITING: Final = "waiting"
"""It waits for a place."""
PLACING: Final = "placing"
"""Its node is being asked for its bundle."""
RECALLED: Final = "recalled"
"""It was evicted on its way: it gives its place back once it has it, then waits again."""
CANCELLED: Final = "cancelled"
"""It ended on its way: it gives its place back once it has it."""
HELD: Final = "held"
"""It has its bundle."""
EVICTED: Final = "evicted"
"""It has a bundle that must be given back; then it waits again."""
LEAVING: Final = "leaving"
"""Like evicted, and its node has been asked to free the bundle."""
OVER: Final = "over"
"""It has a bundle that must be given back, for good."""
ENDING: Final = "ending"
"""Like over, and its node has been asked to free the bundle."""
DONE: Final = "done"
"""It has ended and holds nothing."""

PLACELESS: Final = frozenset({ABSENT, WAITING, DONE})
ON_THE_WAY: Final = frozenset({PLACING, RECALLED, CANCELLED})
"""An attempt is under way to place it."""
HAVING: Final = frozenset({HELD, EVICTED, OVER})
"""Its node keeps its bundle."""
GIVING_BACK: Final = frozenset({LEAVING, ENDING})
HOLDING: Final = ON_THE_WAY | HAVING | GIVING_BACK
"""It takes, or may take, resources of a node."""
ENDED: Final = frozenset({CANCELLED, OVER, ENDING, DONE})
"""It is not wanted any more, even if it still holds something."""
GOING: Final = HOLDING - {PLACING, HELD}
"""Its resources will be free soon."""

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
"""The words for states that people are shown."""
