"""What is free from now on: a row of amounts for each time, a column for each node and quota.

Work is promised room by taking its amounts out of the rows in which it runs. Looking for room is
arithmetic on whole blocks of rows: sums over all nodes first, which rule most times out, then the
least that each node has between start and end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from phalanx.batch.amounts import MAX_IN_ALL, Counts, Flags
from phalanx.batch.rows import Indexes
from phalanx.plan.grid import Grid


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """`count` equal tasks: what each asks for, of which resources, and the nodes that may take
    one, room aside."""

    eq_class: int
    request: Counts
    asked: Sequence[int]
    nodes: Flags
    count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Demand:
    """Tasks that start together, for so long; None: nobody knows how long.

    `quotas` are the lines of the quotas that they count against, together."""

    parts: Sequence[Part]
    length_s: float | None
    quotas: Sequence[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Taking:
    """Room that was found, at times `first` to `last` of the grid: for each part of the demand
    the nodes, and how many of its tasks go on each."""

    demand: Demand
    first: int
    last: int
    places: tuple[tuple[Indexes, Counts], ...]


class Timetable:
    """Free amounts over time. `soon` and `later` have a row for each node, then one for each
    quota: what is free now, and from the next time of the grid on. `order` is the order in which
    nodes are filled: it never changes, so that a plan made again finds the same places."""

    def __init__(
        self,
        grid: Grid,
        soon: Counts,
        later: Counts,
        order: Indexes,
        ends: Iterable[tuple[int, int, Counts]],
    ) -> None:
        """`ends`: (time of the grid, line, amounts) that become free then."""
        self.grid = grid
        self.nodes = len(order)
        self._order = order
        free = np.zeros((len(grid), *later.shape), dtype=np.int64)
        for at, line, amounts in ends:
            free[at, line] += amounts
        free[1] += later
        np.cumsum(free[1:], axis=0, out=free[1:])
        free[0] = soon
        nodes = free[:, : self.nodes]
        # The upper bound is one that no machine reaches, and sums of it fit into 64 bits.
        np.clip(nodes, 0, MAX_IN_ALL // max(self.nodes, 1), out=nodes)
        self._free = free
        self._total: Counts = nodes.sum(axis=1)
        self._lasts: dict[float | None, Indexes] = {}

    # ---- looking -----------------------------------------------------------------------------

    def last(self, length_s: float | None, first: int) -> int:
        """The time of the grid at which work of this length has ended that begins at `first`."""
        return int(self._ends(length_s)[first])

    def earliest(self, demand: Demand, begin: int = 0, end: int | None = None) -> Taking | None:
        """Room for a demand at the earliest time from `begin` on, and before `end`; None if there
        is none within the grid."""
        lasts = self._ends(demand.length_s)
        candidates = self._candidates(demand, lasts, begin)
        if end is not None:
            candidates = candidates[: np.searchsorted(candidates, end)]
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

    def spare(self, length_s: float | None) -> Counts:
        """What each node has left over for work of this length that begins now."""
        low: Counts = self._free[: self.last(length_s, 0), : self.nodes].min(axis=0)
        return low

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

    def _candidates(self, demand: Demand, lasts: Indexes, begin: int) -> Indexes:
        """Times at which all nodes together, and all quotas, have enough until the end."""
        rows = len(self.grid)
        bad = np.zeros(rows - begin, dtype=np.bool_)
        load = total_of(demand)
        for r in np.flatnonzero(load):
            bad |= self._total[begin:, r] < load[r]
            for quota in demand.quotas:
                bad |= self._free[begin:, quota, r] < load[r]
        blocked = np.flatnonzero(bad) + begin
        if not len(blocked):
            return np.arange(begin, rows)
        starts = np.arange(begin, rows)
        following = np.searchsorted(blocked, starts)
        upcoming = np.append(blocked, rows)[following]
        return np.asarray(starts[upcoming >= lasts[begin:]])

    def _fit(self, demand: Demand, first: int, last: int) -> Taking | None:
        low: Counts = self._free[first:last, : self.nodes].min(axis=0)
        places: list[tuple[Indexes, Counts]] = []
        for part in demand.parts:
            if places:
                nodes, counts = places[-1]
                low[nodes] -= counts[:, None] * demand.parts[len(places) - 1].request
            room = _rooms(low, part)[self._order]
            taken = np.minimum(room, np.maximum(part.count - (np.cumsum(room) - room), 0))
            if int(taken.sum()) < part.count:
                return None
            used = np.flatnonzero(taken)
            places.append((self._order[used], taken[used]))
        return Taking(demand=demand, first=first, last=last, places=tuple(places))

    def _last_blocked(self, demand: Demand, first: int, last: int) -> int:
        """The last of these times at which a part has no room even by itself; -1 for none."""
        for at in range(last - 1, first - 1, -_BLOCK):
            rows = self._free[max(first, at - _BLOCK + 1) : at + 1, : self.nodes]
            for part in demand.parts:
                short = np.flatnonzero(_rooms(rows, part).sum(axis=1) < part.count)
                if len(short):
                    return max(first, at - _BLOCK + 1) + int(short[-1])
        return -1

    # ---- taking ------------------------------------------------------------------------------

    def take(self, taking: Taking) -> None:
        """The room is promised from now on."""
        self._enter(taking, 1)

    def give_back(self, taking: Taking) -> None:
        """Undo `take`."""
        self._enter(taking, -1)

    def _enter(self, taking: Taking, sign: int) -> None:
        rows = slice(taking.first, taking.last)
        for part, (nodes, counts) in zip(taking.demand.parts, taking.places, strict=True):
            self._free[rows, nodes] -= counts[:, None] * (sign * part.request)
        load = sign * total_of(taking.demand)
        self._total[rows] -= load
        for quota in taking.demand.quotas:
            self._free[rows, quota] -= load


_BLOCK = 64
"""So many rows are looked at in one go."""


def total_of(demand: Demand) -> Counts:
    """What all tasks of a demand ask for together."""
    out = np.zeros_like(demand.parts[0].request)
    for part in demand.parts:
        out += part.request * part.count
    return out


def _rooms(free: Counts, part: Part) -> Counts:
    """How many tasks of the part each node has room for, as far as it has to be known."""
    out: Counts | None = None
    for r in part.asked:
        times = free[..., r] // part.request[r]
        out = times if out is None else np.minimum(out, times)
    assert out is not None, "every task asks for a place"
    return np.where(part.nodes, np.minimum(out, part.count), 0)
