"""The promises of a plan, in the form in which the plugin `reservation` reads them in the cycle for
which the plan was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from phalanx.scheduler.cycle.amounts import Counts, Vector
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.forecast.draft import Draft
from phalanx.scheduler.forecast.reading import OF_LICENSE
from phalanx.scheduler.forecast.reservation_timeline import ReservationTimeline
from phalanx.scheduler.forecast.timetable import Taking


class CyclePromises:
    """The promises of one cycle, made from a draft, in the form that the plugin `reservation`
    reads.
    """

    def __init__(self, draft: Draft, others: Iterable[Job]) -> None:
        """`others`: podgroups that are not in the draft and that must not start now."""
        self._table = draft.table
        self.held_back: dict[str, float | None] = {}
        self.places: dict[str, dict[int, Counts]] = {}
        for entry in draft.entries:
            if entry.taking.first:
                self.held_back[entry.job.uid] = draft.snapshot.grid.at(entry.taking.first)
            else:
                self.places[entry.job.uid] = dict(_by_class(entry.taking, draft.snapshot.lines))
        self.held_back |= dict.fromkeys([job.uid for job in (*draft.unknown, *others)])

    def spare(self, length_s: float | None) -> Vector:
        """Return the room that each node has left for work of this length, in seconds, that starts
        now.
        """
        return self._table.spare(length_s)


def _by_class(taking: Taking, lines: ReservationTimeline) -> Iterator[tuple[int, Counts]]:
    for part, (at, counts) in zip(taking.demand.parts, taking.places, strict=True):
        if part.eq_class == OF_LICENSE:
            continue
        column = np.zeros(len(lines) - lines.extra, dtype=np.int64)
        for node, count in lines.loads(at, counts):
            column[node] += count
        yield part.eq_class, column
