"""The strategies SPREAD and RANDOM. SPREAD takes the possible nodes one after another; RANDOM takes
a random one.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.devices.ports import RandomSource
from phalanx.scheduler.placement.node_table import Flags
from phalanx.scheduler.placement.outcome import Outcome
from phalanx.scheduler.placement.request_class import ClusterView, Request
from phalanx.scheduler.placement.strategy import Asking, excluded_rows, placed, reject


class Spread:
    """The strategy that takes nodes one after another, in the order of their ids: first the
    available nodes, then the feasible ones.

    The position is kept between picks, so each asker needs its own `Spread`.
    """

    def __init__(self) -> None:
        self._next_row = 0

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Return the next node in turn; `rng` is not used."""
        known = view.of(request)
        passes = (
            (known.available,) if asking.require_available else (known.available, known.feasible)
        )
        excluded = excluded_rows(view, asking)
        for flags in passes:
            row = next_flagged(flags, self._next_row, excluded)
            if row is not None:
                self._next_row = (row + 1) % len(view.nodes)
                return placed(view, row, bool(known.available[row]))
        return reject(view, request, asking)


class RandomAvailable:
    """The strategy that starts at a random node and takes the first available node from there
    on.
    """

    def pick(
        self, view: ClusterView, request: Request, asking: Asking, rng: RandomSource
    ) -> Outcome:
        """Return an available node, and never a busy one: if the request is made again, it goes to
        another random node.
        """
        known = view.of(request)
        if len(view.nodes):
            start = rng.randrange(len(view.nodes))
            row = next_flagged(known.available, start, excluded_rows(view, asking))
            if row is not None:
                return placed(view, row, True)
        return reject(view, request, asking)


def next_flagged(flags: Flags, start: int, excluded: list[int]) -> int | None:
    """Return the first row that is flagged and not excluded, from `start` on and then from the
    beginning.
    """
    size = len(flags)
    if not size:
        return None
    start %= size
    for begin, end in ((start, size), (0, start)):
        row = _first(flags, begin, end)
        while row is not None and row in excluded:
            row = _first(flags, row + 1, end)
        if row is not None:
            return row
    return None


def _first(flags: Flags, begin: int, end: int) -> int | None:
    if begin >= end:
        return None
    at = int(np.argmax(flags[begin:end]))
    return begin + at if flags[begin + at] else None
