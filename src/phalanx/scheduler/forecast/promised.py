"""Promised places at promised times. They are kept from plan to plan, and across restarts of the
head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from phalanx.scheduler.forecast.grid import Grid
from phalanx.scheduler.forecast.timetable import Demand, Taking, Timetable


class PromisedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Equal tasks of a promise: their number, the request of each task, their nodes, and the number
    of tasks on each node.
    """

    count: int
    request: dict[str, float]
    nodes: list[str]
    counts: list[int]


class PromiseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A promise, as stored."""

    podgroup: str
    place: int
    """The promise's position in the order in which promises are made."""
    at_s: float
    parts: list[PromisedPart]


class Kept:
    """A place and a time promised to a podgroup. Nodes are stored by name, because nodes may come
    and go.
    """

    __slots__ = ("_counts", "_names", "_nodes", "_wanted", "at_s")

    def __init__(
        self, at_s: float, wanted: list[tuple[int, bytes]], nodes: list[list[str]],
        counts: list[np.ndarray], names: Sequence[str],
    ) -> None:  # fmt: skip
        """`wanted`: for each part, the number of tasks and the request of each task: the amounts of
        the resources `names`, in that order.
        """
        self.at_s = at_s
        self._wanted = wanted
        self._nodes = nodes
        self._counts = counts
        self._names = names

    @classmethod
    def of(cls, taking: Taking, grid: Grid, lines: Sequence[str], names: Sequence[str]) -> Kept:
        """Return a promise of the room that was found. `lines`: the names of the timetable's
        columns. `names`: the names of the resources.
        """
        return cls(
            grid.at(taking.first),
            _wanted(taking.demand),
            [[lines[node] for node in nodes.tolist()] for nodes, _ in taking.places],
            [counts for _, counts in taking.places],
            names,
        )

    @classmethod
    def read(cls, row: PromiseRow) -> Kept:
        """Return a stored promise."""
        names = sorted({name for part in row.parts for name in part.request})
        return cls(
            row.at_s,
            [(p.count, _bytes([p.request.get(name, 0.0) for name in names])) for p in row.parts],
            [part.nodes for part in row.parts],
            [np.array(part.counts, dtype=np.int64) for part in row.parts],
            names,
        )

    def later(self, by_s: float) -> Kept:
        """Return a promise of the same place at a time that is `by_s` seconds later."""
        return Kept(self.at_s + by_s, self._wanted, self._nodes, self._counts, self._names)

    def row(self, podgroup: str, place: int) -> PromiseRow:
        """Return the row to store for this promise."""
        parts = [
            PromisedPart(
                count=count,
                request={
                    name: amount
                    for name, amount in zip(
                        self._names, np.frombuffer(request).tolist(), strict=True
                    )
                    if amount
                },
                nodes=nodes,
                counts=counts.tolist(),
            )
            for (count, request), nodes, counts in zip(
                self._wanted, self._nodes, self._counts, strict=True
            )
        ]
        return PromiseRow(podgroup=podgroup, place=place, at_s=self.at_s, parts=parts)

    def again(
        self, table: Timetable, demand: Demand, at: Mapping[str, int], names: Sequence[str]
    ) -> Taking | None:
        """Return the same place in a later timetable, even if it is not free. Returns None if the
        place is no longer possible, or if the demand has changed.
        """
        if names is not self._names and list(names) != list(self._names):
            self._read_anew(names)
        if _wanted(demand) != self._wanted:
            return None
        if not all(name in at for nodes in self._nodes for name in nodes):
            return None
        indexes = [np.array([at[name] for name in nodes], dtype=np.intp) for nodes in self._nodes]
        return table.standing(demand, self.at_s, tuple(zip(indexes, self._counts, strict=True)))

    def _read_anew(self, names: Sequence[str]) -> None:
        """Convert the stored requests to the resources `names`, which may be others or in another
        order.
        """
        known = [
            dict(zip(self._names, np.frombuffer(r).tolist(), strict=True)) for _, r in self._wanted
        ]
        self._wanted = [
            (count, _bytes([amounts.get(name, 0.0) for name in names]))
            for (count, _), amounts in zip(self._wanted, known, strict=True)
        ]
        self._names = names


def _wanted(demand: Demand) -> list[tuple[int, bytes]]:
    return [(part.count, part.request.tobytes()) for part in demand.parts]


def _bytes(amounts: list[float]) -> bytes:
    return np.array(amounts, dtype=np.float64).tobytes()
