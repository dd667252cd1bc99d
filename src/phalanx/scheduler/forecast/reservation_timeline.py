"""Additional columns of a timetable: reserved parts of nodes, and counts of licenses.

While a reservation lasts, the amounts that it keeps on a node are subtracted from the node's
column. These amounts form another column, and only guests of the reservation look for room there.
The column of a kind of license has as many slots as the cluster has licenses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from phalanx.scheduler.cycle.amounts import PODS, Counts, Flags, Vector
from phalanx.scheduler.cycle.calendar import Calendar, Kept
from phalanx.scheduler.cycle.cluster import Cluster
from phalanx.scheduler.cycle.rows import Indexes
from phalanx.scheduler.cycle.specs import LicenseSpec
from phalanx.scheduler.forecast.grid import Grid

EXACT = 512
"""The number of beginnings and ends of reservations that become times of the grid; the earliest are
chosen. Later beginnings and ends are rounded so that the reservation lasts longer.
"""
NO_NODE = -1


def boundaries(calendar: Calendar) -> list[float]:
    """Return the earliest times at which reservations begin and end, at most EXACT times."""
    windows = (window for kept in calendar.kept.values() for window in kept.windows)
    times = {time for window in windows for time in window if not math.isinf(time)}
    return sorted(times)[:EXACT]


class ReservationTimeline:
    """The columns of a timetable: first nodes, then the reserved parts of nodes, then licenses."""

    def __init__(
        self,
        cluster: Cluster,
        calendar: Calendar,
        licenses: Sequence[LicenseSpec],
        grid: Grid,
    ) -> None:
        self._cluster = cluster
        self._calendar = calendar
        self._grid = grid
        self._totals = {one.name: one.total for one in licenses}
        count = len(cluster.nodes)
        self.names: list[str] = list(cluster.node_names)
        self.node_of: list[int] = list(range(count))
        """The node of each column; NO_NODE for the column of a license."""
        self._of_guests: dict[tuple[str, int], int] = {}
        for name, kept in calendar.kept.items():
            for node in () if kept.spec.maintenance else np.flatnonzero(kept.nodes).tolist():
                self._of_guests[name, node] = len(self.names)
                self._add(f"{cluster.node_names[node]} in {name}", node)
        self._of_licenses: dict[str, int] = {}
        for name in self._totals:
            self._of_licenses[name] = len(self.names)
            self._add(f"licenses of {name}", NO_NODE)
        self.index: Mapping[str, int] = {name: at for at, name in enumerate(self.names)}
        self._until: dict[str, Indexes] = {}

    def _add(self, name: str, node: int) -> None:
        self.names.append(name)
        self.node_of.append(node)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def extra(self) -> int:
        """The number of columns that are not those of nodes: reserved parts and licenses."""
        return len(self) - len(self._cluster.nodes)

    def order(self, of_nodes: Indexes) -> Indexes:
        """Return the order in which the columns are filled."""
        return np.concatenate((of_nodes, np.arange(len(of_nodes), len(self))))

    def within(self) -> list[tuple[int, int]]:
        """Return, for each reserved part of a node: (its column, the node's column)."""
        return [(line, node) for (_, node), line in self._of_guests.items()]

    def changes(self) -> Iterator[tuple[int, int, Vector]]:
        """Yield (index of a time, column, amounts) for each time at which the free amounts of a
        column change because of reservations or licenses. The amounts become free at that time;
        negative amounts are taken.
        """
        grid = self._grid
        for name, kept in self._calendar.kept.items():
            for window in kept.windows:
                begin, end = self._rows(window.begin_s, window.end_s)
                if not end:
                    continue
                for node in np.flatnonzero(kept.nodes).tolist():
                    claim = kept.claim[node].astype(np.float64)
                    guests = self._of_guests.get((name, node))
                    for at, sign in ((begin, 1.0), (end, -1.0)):
                        if at < len(grid):
                            yield at, node, claim * -sign
                            if guests is not None:
                                yield at, guests, claim * sign
        for name, line in self._of_licenses.items():
            yield 0, line, self.slots(self._totals[name])

    def _rows(self, begin_s: float, end_s: float) -> tuple[int, int]:
        grid = self._grid
        if end_s <= grid.now:
            return 0, 0
        return grid.rounded_down(begin_s), grid.rounded_up(end_s)

    def slots(self, count: int) -> Vector:
        """Return `count` licenses in the form of amounts in the timetable."""
        amounts: Vector = np.zeros(len(self._cluster.dims))
        amounts[PODS] = count
        return amounts

    # ---- who may be where --------------------------------------------------------------------

    def of_guest(self, kept: Kept | None, node: int) -> int | None:
        """Return the column from which a running task of a reservation takes its room on this node.

        Returns None if there is no reservation, or if it is not in force now.
        """
        if kept is None or kept.window_at(self._grid.now) is None:
            return None
        return self._of_guests.get((kept.spec.name, node))

    def of_license(self, name: str) -> int | None:
        """Return the column of a license; None if the license is unknown."""
        return self._of_licenses.get(name)

    def ended_by(self, kept: Kept, at: int) -> int:
        """Return the index of the time by which a running job of the reservation has ended: `at`,
        or the end of the reservation's present window if that is earlier.
        """
        window = kept.window_at(self._grid.now)
        return at if window is None else min(at, self._grid.rounded_up(window.end_s))

    def until(self, kept: Kept) -> Indexes:
        """Return, for each time of the grid, the latest end of a job that starts then inside the
        reservation. If the reservation is not in force then, this is the time itself.
        """
        name = kept.spec.name
        if name not in self._until:
            rows = len(self._grid)
            ends = np.arange(rows)
            for window in kept.windows:
                begin, end = self._rows(window.begin_s, window.end_s)
                ends[begin:end] = end
            self._until[name] = ends
        return self._until[name]

    def for_strangers(self, nodes: Flags) -> Flags:
        """Return a mask of the columns on these nodes in which work outside all reservations may
        run.
        """
        return np.concatenate((nodes, np.zeros(self.extra, dtype=np.bool_)))

    def for_guests(self, nodes: Flags, kept: Kept) -> Flags:
        """Return a mask of the columns on these nodes in which work inside the reservation may
        run.
        """
        lines: Flags = np.zeros(len(self), dtype=np.bool_)
        for node in np.flatnonzero(nodes).tolist():
            line = self._of_guests.get((kept.spec.name, node))
            if line is not None:
                lines[line] = True
        return lines

    def for_license(self, name: str) -> Flags:
        """Return a mask of the license's column; a mask of no column if the license is unknown."""
        lines: Flags = np.zeros(len(self), dtype=np.bool_)
        if name in self._of_licenses:
            lines[self._of_licenses[name]] = True
        return lines

    def loads(self, nodes: Indexes, counts: Counts) -> Iterator[tuple[int, int]]:
        """Yield (node, number of tasks) for each of these columns (`nodes`) and its number of
        tasks. Columns of licenses are skipped.
        """
        for line, count in zip(nodes.tolist(), counts.tolist(), strict=True):
            if self.node_of[line] != NO_NODE:
                yield self.node_of[line], count
