"""The data of an array's tasks on its page: a cell for each task, and the counts by state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from phalanx.model.rows.work import ArrayTaskInfo

CELLS = 2_000
"""The most array tasks that have a cell."""
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?$")


class ArrayCell(msgspec.Struct, frozen=True, kw_only=True):
    """One array task."""

    index: int
    state: str
    words: str


class ArrayGrid(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of an array that an address selects: all tasks, or the tasks in one state."""

    states: dict[str, int]
    """The number of tasks by state, among all tasks that the head listed."""
    state: str
    """The selected state; empty: all states."""
    cells: list[ArrayCell]
    matched: int


def array_grid(rows: Sequence[ArrayTaskInfo], words: Mapping[str, str]) -> ArrayGrid:
    """Return the grid of the array tasks in these rows. The address's parameter `task` selects a
    state.
    """
    states: Counter[str] = Counter()
    for row in rows:
        states[row.state] += row.elements
    state = words.get("task", "")
    chosen = [row for row in rows if row.state == state] if state in states else list(rows)
    cells: list[ArrayCell] = []
    for row in chosen:
        for index in _indices(row.name):
            if len(cells) == CELLS:
                break
            said = "" if row.exit_code is None else f", exit code {row.exit_code}"
            said += f", started {row.starts} times" if row.starts > 1 else ""
            said += f": {row.reason}" if row.reason else ""
            words_of = f"task {index} is {row.state}{said}"
            cells.append(ArrayCell(index=index, state=row.state, words=words_of))
    return ArrayGrid(
        states=dict(states),
        state=state if state in states else "",
        cells=cells,
        matched=sum(row.elements for row in chosen),
    )


def _indices(name: str) -> Iterator[int]:
    """Yield the indices in a name such as `sweep[0-8:2,11]`."""
    for part in name.rpartition("[")[2].rstrip("]").split(","):
        found = _RANGE.match(part)
        if found is not None:
            first, last, step = found[1], found[2] or found[1], found[3] or "1"
            yield from range(int(first), int(last) + 1, max(int(step), 1))
