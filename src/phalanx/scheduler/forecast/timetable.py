"""The free amounts over time, from now on: a row for each time, and a column for each node and
quota.

To promise room to work, the work's amounts are subtracted from the rows in which the work runs. The
search for room is arithmetic on whole blocks of rows. First, most times are ruled out by sums over
all nodes. For each other time, the least amount that each node has free between the start and the
end of the work decides. Amounts are whole numbers below 2**53, so doubles are exact. Doubles also
divide faster than integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from phalanx.scheduler.cycle.amounts import Counts, Flags, Vector
from phalanx.scheduler.cycle.rows import Indexes
from phalanx.scheduler.forecast.grid import Grid

UNLIMITED = 2.0**52
"""An amount that stands for an unlimited amount."""
_BLOCK = 64
"""The number of rows that are read in one step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Equal tasks of a demand: how many, the request of each, the requested resources, and a mask
    of the nodes that may take such a task if they have room. `is_apart`: whether each task must be
    on a node without any other task of a part with `is_apart`.
    """

    eq_class: int
    request: Vector
    asked: Sequence[int]
    nodes: Flags
    count: int
    is_apart: bool = False


class Demand:
    """Tasks that start together and run for `length_s` seconds, or for an unknown time if it is
    None.

    `quotas`: the columns of the quotas against which the tasks count. `load`: the sum of the tasks'
    requests. `until`: for each time of the grid, the latest end of tasks that start then; the time
    itself if no task may start then. It is None if nothing ends the tasks before `length_s`.
    """

    __slots__ = ("asked", "length_s", "load", "parts", "quotas", "until")

    def __init__(
        self,
        parts: Sequence[Part],
        length_s: float | None,
        quotas: Sequence[int],
        until: Indexes | None = None,
    ) -> None:
        self.parts = parts
        self.length_s = length_s
        self.quotas = quotas
        self.until = until
        self.load: Vector = sum(
            (part.request * part.count for part in parts[1:]), parts[0].request * parts[0].count
        )
        self.asked = sorted({r for part in parts for r in part.asked})


@dataclass(frozen=True, kw_only=True, eq=False)
class Taking:
    """Room that was found, from the time `first` to the time `last` of the grid. `places`: for each
    part of the demand, its nodes, and how many of its tasks each node has.
    """

    demand: Demand
    first: int
    last: int
    places: tuple[tuple[Indexes, Counts], ...]


class Timetable:
    """The free amounts over time.

    `soon`: the free amounts now. `later`: the free amounts from the next time of the grid on. Both
    have an entry for each column of the table: first the nodes, then the quotas. `order`: the order
    in which nodes are filled. The order never changes, so that a repeated plan finds the same
    places.
    """

    def __init__(
        self,
        grid: Grid,
        soon: Vector,
        later: Vector,
        order: Indexes,
        ends: Iterable[tuple[int, int, Vector]],
        within: Iterable[tuple[int, int]] = (),
    ) -> None:
        """`ends`: a list of (index of a time, column, amounts that become free at that time).
        Negative amounts are taken at that time. `within`: (column, node) of each reserved part. The
        column of a reserved part has less room while its node is overbooked.
        """
        self.grid = grid
        self.nodes = len(order)
        self._order = order
        free = np.zeros((len(grid), *later.shape))
        for at, line, amounts in ends:
            free[at, line] += amounts
        free[1] += np.minimum(later, UNLIMITED)
        np.cumsum(free[1:], axis=0, out=free[1:])
        free[0] = np.minimum(soon, UNLIMITED)
        for line, node in within:
            free[:, line] += np.minimum(free[:, node], 0)
        nodes = free[:, : self.nodes]
        np.maximum(nodes, 0, out=nodes)
        self._free = free
        self._total: Vector = np.einsum(
            "tnr->tr", nodes
        )  # three times as fast as a sum over axis 1
        # These sums may exceed the range in which doubles are exact, but they are only used to rule
        # times out.
        self._total += self._total.max(axis=0) * 2.0**-36
        self._lasts: dict[float | None, Indexes] = {}
        self._clipped: dict[tuple[float | None, int], Indexes] = {}

    # ---- looking -----------------------------------------------------------------------------

    def last(self, length_s: float | None, first: int) -> int:
        """Return the index of the time by which work of this length that starts at `first` has
        ended.
        """
        return int(self._ends(length_s)[first])

    def earliest(self, demand: Demand, begin: int = 0, end: int | None = None) -> Taking | None:
        """Return room for a demand at the earliest time from `begin` on and before `end`. Returns
        None if there is no room at any such time.
        """
        if not all(part.nodes.any() for part in demand.parts):
            return None
        lasts = self._lasts_of(demand)
        end = len(self.grid) if end is None else end
        candidates = self._candidates(demand, lasts, begin, end)
        at = 0
        while at < len(candidates):
            first = int(candidates[at])
            last = int(lasts[first])
            taking = self._fit(demand, first, last)
            if taking is not None:
                return taking
            blocked = self._last_blocked(demand, first, last)
            at = int(np.searchsorted(candidates, max(blocked, first) + 1))
        return None

    def standing(
        self, demand: Demand, time: float, places: tuple[tuple[Indexes, Counts], ...]
    ) -> Taking | None:
        """Return these places as room for the demand from `time` on; from now on if `time` has
        passed. The places need not be free.

        Returns None if the time is beyond the grid, or if the demand may not use these places.
        """
        first = self.grid.rounded_up(time)
        if first == len(self.grid):
            return None
        last = int(self._lasts_of(demand)[first])
        if not _are_apart(demand, places):
            # an earlier plan did not consider that the tasks must be on different nodes
            return None
        parts = zip(demand.parts, places, strict=True)
        if last == first or not all(part.nodes[nodes].all() for part, (nodes, _) in parts):
            return None
        return Taking(demand=demand, first=first, last=last, places=places)

    def is_free(self, taking: Taking) -> bool:
        """Whether all nodes and quotas have room for the taking."""
        demand = taking.demand
        low: Vector = self._free[taking.first : taking.last].min(axis=0)
        for part, (nodes, counts) in zip(demand.parts, taking.places, strict=True):
            low[nodes] -= counts[:, None] * part.request
            if (low[nodes] < 0).any():
                return False
        return not any((low[quota] < demand.load)[demand.asked].any() for quota in demand.quotas)

    def is_within(self, earlier: Timetable) -> bool:
        """Whether all amounts that are free here were free at the same time in the table `earlier`.
        Both tables must have the same columns. Returns False if the times of the tables differ.
        """
        passed = len(earlier.grid) - len(self.grid)
        if passed < 0 or self.grid.now < earlier.grid.times[passed]:
            return False
        if not np.array_equal(self.grid.times[1:], earlier.grid.times[passed + 1 :]):
            return False
        return bool((self._free <= earlier._free[passed:]).all())

    def room_now(self, request: Vector, asked: Sequence[int]) -> int:
        """Return how many tasks with this request would fit now if every node could take them."""
        free = self._free[0, : self.nodes]
        least = np.min([free[:, r] // request[r] for r in asked], axis=0)
        return int(least.sum())

    def spare(self, length_s: float | None) -> Vector:
        """Return the amounts that each node has left for work of this length that starts now."""
        low: Vector = self._free[: self.last(length_s, 0), : self.nodes].min(axis=0)
        return low

    def _lasts_of(self, demand: Demand) -> Indexes:
        """Return, for each time of the grid, the time at which the demand's tasks end if they start
        then.
        """
        ends = self._ends(demand.length_s)
        if demand.until is None:
            return ends
        key = (demand.length_s, id(demand.until))
        found = self._clipped.get(key)
        if found is None:
            found = self._clipped[key] = np.minimum(ends, demand.until)
        return found

    def _ends(self, length_s: float | None) -> Indexes:
        found = self._lasts.get(length_s)
        if found is None:
            rows = len(self.grid)
            if length_s is None:
                found = np.full(rows, rows, dtype=np.intp)
            else:
                found = np.maximum(self.grid.ends(length_s), np.arange(1, rows + 1))
            self._lasts[length_s] = found
        return found

    def _candidates(self, demand: Demand, lasts: Indexes, begin: int, end: int) -> Indexes:
        """Return the times at which the demand may start: from then until the demand's end, all
        nodes together have enough room, and each quota has enough.
        """
        rows = slice(begin, int(lasts[end - 1]))
        bad = np.zeros(rows.stop - begin + 1, dtype=np.bool_)
        for r in demand.asked:
            bad[1:] |= self._total[rows, r] < demand.load[r]
            for quota in demand.quotas:
                bad[1:] |= self._free[rows, quota, r] < demand.load[r]
        before = np.cumsum(bad)
        starts = np.arange(begin, end)
        good = before[lasts[begin:end] - begin] == before[: end - begin]
        good &= lasts[begin:end] > starts
        return np.asarray(starts[good])

    def _fit(self, demand: Demand, first: int, last: int) -> Taking | None:
        low: Vector = self._free[first:last, : self.nodes].min(axis=0)
        places: list[tuple[Indexes, Counts]] = []
        for part in demand.parts:
            if places:
                nodes, counts = places[-1]
                low[nodes] -= counts[:, None] * demand.parts[len(places) - 1].request
            rooms = _rooms(low, part)
            if part.is_apart:
                for other, (nodes, _) in zip(demand.parts, places, strict=False):
                    if other.is_apart:
                        rooms[nodes] = 0
            room = rooms[self._order]
            taken = np.minimum(room, np.maximum(part.count - (np.cumsum(room) - room), 0))
            if int(taken.sum()) < part.count:
                return None
            used = np.flatnonzero(taken)
            places.append((self._order[used], taken[used]))
        return Taking(demand=demand, first=first, last=last, places=tuple(places))

    def _last_blocked(self, demand: Demand, first: int, last: int) -> int:
        """Return the latest time from which the demand certainly has no room until `last`; -1 if
        none is found.

        Only times from `first` to just before `last` are tried. At the returned time, some part of
        the demand has no room until `last`, even without the other parts. So a demand that starts
        at or before this time, and ends at `last` or later, has no room either.
        """
        low: Vector | None = None
        for end in range(last, first, -_BLOCK):
            rows = self._free[max(first, end - _BLOCK) : end, : self.nodes][::-1]
            least = np.minimum.accumulate(rows, axis=0)
            if low is not None:
                np.minimum(least, low, out=least)
            low = least[-1]
            for part in demand.parts:
                short = np.flatnonzero(_rooms(least, part).sum(axis=1) < part.count)
                if len(short):
                    steps_back = int(short[0])  # the rows run backwards from end - 1
                    return end - 1 - steps_back
        return -1

    # ---- taking ------------------------------------------------------------------------------

    def take(self, taking: Taking) -> None:
        """Take the room of a taking, so that it is no longer free."""
        self._enter(taking, 1)

    def take_all(self, takings: Sequence[Taking]) -> bool:
        """Take the room of all `takings` if they fit together, and otherwise of none of them.

        If a quota is already exceeded, this may return False although the takings could be taken
        one by one.
        """
        if not takings:
            return True
        lines: list[Indexes] = []
        loads: list[Vector] = []
        spans: list[tuple[int, int, int]] = []
        for taking in takings:
            demand, first, last = taking.demand, taking.first, taking.last
            for part, (nodes, counts) in zip(demand.parts, taking.places, strict=True):
                lines.append(nodes)
                loads.append(counts[:, None] * part.request)
                spans.append((first, last, len(nodes)))
            for quota in demand.quotas:
                lines.append(np.array((quota,)))
                loads.append(demand.load[None])
                spans.append((first, last, 1))
        at, load = np.concatenate(lines), np.concatenate(loads)
        begins, ends, sizes = np.array(spans).T
        rows, width, kinds = self._free.shape
        change = np.zeros((rows + 1, width, kinds))
        np.subtract.at(change, (np.repeat(begins, sizes), at), load)
        np.add.at(change, (np.repeat(ends, sizes), at), load)
        np.cumsum(change, axis=0, out=change)
        change = change[:-1]
        self._free += change
        if ((self._free < 0) & (change < 0)).any():
            self._free -= change
            return False
        for taking in takings:
            self._total[taking.first : taking.last] -= taking.demand.load
        return True

    def give_back(self, taking: Taking) -> None:
        """Undo `take`."""
        self._enter(taking, -1)

    def _enter(self, taking: Taking, sign: int) -> None:
        rows = slice(taking.first, taking.last)
        for part, (nodes, counts) in zip(taking.demand.parts, taking.places, strict=True):
            self._free[rows, nodes] -= counts[:, None] * (sign * part.request)
        load = sign * taking.demand.load
        self._total[rows] -= load
        for quota in taking.demand.quotas:
            self._free[rows, quota] -= load


def _are_apart(demand: Demand, places: Sequence[tuple[Indexes, Counts]]) -> bool:
    """Whether all tasks of parts with `is_apart` are on different nodes."""
    pairs = zip(demand.parts, places, strict=True)
    apart = [(nodes, counts) for part, (nodes, counts) in pairs if part.is_apart]
    if not apart:
        return True
    nodes = np.concatenate([one for one, _ in apart])
    return len(np.unique(nodes)) == sum(int(counts.sum()) for _, counts in apart)


def is_ever_room(demand: Demand, most: Vector) -> bool:
    """Whether a demand would fit if each node and each quota had its largest amounts (`most`) at
    the same time.
    """
    free: Vector = np.maximum(most, 0.0)
    return all(
        int(_rooms(free[: len(part.nodes)], part).sum()) >= part.count for part in demand.parts
    ) and not any((free[quota] < demand.load)[demand.asked].any() for quota in demand.quotas)


def _rooms(free: Vector, part: Part) -> Counts:
    """Return how many tasks of the part fit on each node: at most `part.count`, and at most one
    with `is_apart`.
    """
    least: Vector | None = None
    for r in part.asked:
        times = free[..., r] / part.request[r]
        least = times if least is None else np.minimum(least, times, out=least)
    assert least is not None, "every task asks for a place"
    np.minimum(least, 1 if part.is_apart else part.count, out=least)
    return np.where(part.nodes, least, 0.0).astype(np.int64)
