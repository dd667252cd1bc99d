"""The terms on which a running podgroup may be moved to other nodes. Its annotations state them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from phalanx.scheduler.cycle.arguments import seconds

MOVABLE = "phalanx/movable"
"""The annotation of a podgroup that may be moved. Its value is the time between two saves
of the podgroup's work, such as "10m", or "true" if the podgroup saves no work.
"""
RESTART = "phalanx/restart-time"
"""The annotation with the time that a restart of the podgroup takes, such as "30s"."""
SAVES_NOTHING = "true"


class MoveTerms(NamedTuple):
    """The cost of a move of a podgroup: at most the work of the last `saves_every_s` seconds
    (infinite: all work), and `restart_s` seconds for the restart.
    """

    saves_every_s: float
    restart_s: float

    def lost_s(self, ran_s: float) -> float:
        """Return the seconds of work that a move loses after `ran_s` seconds of running."""
        return min(ran_s, self.saves_every_s)


def move_terms(annotations: Iterable[tuple[str, str]]) -> MoveTerms | None:
    """Return the terms on which a podgroup with these annotations may be moved; None if it must not
    be moved.
    """
    said = dict(annotations)
    text = said.get(MOVABLE, "")
    saves_every_s = math.inf if text == SAVES_NOTHING else seconds(text)
    if saves_every_s is None:
        return None
    return MoveTerms(saves_every_s, seconds(said.get(RESTART, "")) or 0.0)


def terms_fault(annotations: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the first invalid annotation, with the allowed values; None if all are valid."""
    for name, text in annotations:
        if name == MOVABLE and text != SAVES_NOTHING and seconds(text) is None:
            return (
                name,
                f"it must be 'true' or the time between two saves, such as '10m', not {text!r}",
            )
        if name == RESTART and seconds(text) is None:
            return name, f"it must be a duration such as '30s', not {text!r}"
    return None
