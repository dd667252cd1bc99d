"""Arrays: one job that runs many times, each time with another index."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import msgspec

from phalanx.model.ids import JobId

MAX_ELEMENTS = 1_000_000
"""The largest number of array tasks in one array."""
MAX_INDEX = 2**31 - 1
MAX_RANGES = 10_000
"""The largest number of ranges that the indices of one array may form."""

_LISTED = 10
"""A range with a step is written as a list of its indices if the distance between its first and its
last index is at most this number, as in Slurm.
"""

Range = tuple[int, int, int]
"""The first and the last index, both included, and the step between indices."""


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The indices of an array in ascending ranges, and the largest number of array tasks that may
    run at the same time.
    """

    ranges: tuple[Range, ...]
    limit: int | None = None

    @property
    def count(self) -> int:
        return sum((last - first) // step + 1 for first, last, step in self.ranges)

    @property
    def first(self) -> int:
        return self.ranges[0][0]

    @property
    def last(self) -> int:
        return self.ranges[-1][1]

    @property
    def step(self) -> int:
        """The step of the array's only range; 1 for an array with several ranges, as in Slurm."""
        return self.ranges[0][2] if len(self.ranges) == 1 else 1


class Indices:
    """The indices of an array in ascending order: `at` returns the index at a position, and
    `position` the position of an index. Positions are counted from 0.
    """

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self._ranges = [range(first, last + 1, step) for first, last, step in ranges]
        sizes = [len(one) for one in self._ranges]
        self._begins = [0, *itertools.accumulate(sizes)]
        self._firsts = [one.start for one in self._ranges]

    def __len__(self) -> int:
        return self._begins[-1]

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._ranges)

    def at(self, position: int) -> int:
        """Return the index at a position."""
        number = bisect.bisect_right(self._begins, position) - 1
        return self._ranges[number][position - self._begins[number]]

    def written(self, begin: int, end: int) -> str:
        """Return the indices at the positions from `begin` to `end` - 1 as text: `1,3,5-7` or
        `0-20:2`.
        """
        parts: list[str] = []
        for number, one in enumerate(self._ranges):
            here = self._begins[number]
            part = one[max(begin - here, 0) : max(end - here, 0)]
            if part.step == 1 and len(part) > 1:
                parts.append(f"{part[0]}-{part[-1]}")
            elif part and part[-1] - part[0] > _LISTED:
                parts.append(f"{part[0]}-{part[-1]}:{part.step}")
            else:
                parts += map(str, part)
        return ",".join(parts)

    def position(self, index: int) -> int | None:
        """Return the position of an index; None for an index that the array does not have."""
        number = bisect.bisect_right(self._firsts, index) - 1
        if number < 0 or index not in self._ranges[number]:
            return None
        return self._begins[number] + self._ranges[number].index(index)


class ArrayTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The array to which an array task belongs, and the task's place in the array."""

    array: JobId
    """The array's `namespace/name`."""
    index: int
    count: int
    first: int
    last: int
    step: int
    since: float
    """The time from which the array counts as waiting, in seconds since the epoch."""


def array_task_name(array: str, index: int) -> str:
    """Return the name of an array task within its namespace."""
    return f"{array}[{index}]"


def array_task_uid(array: JobId, index: int) -> JobId:
    """Return the id of an array task."""
    return JobId(array_task_name(array, index))


def split_element(name: str) -> tuple[str, str] | None:
    """Return (array, indices) of a name such as `NAME[3-5]`: `NAME` and `3-5`. None for a name in
    another form.
    """
    array, bracket, rest = name.partition("[")
    return (array, rest[:-1]) if bracket and rest.endswith("]") else None
