"""Finds a different node for each bundle whenever that is possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence


def match(choices: Mapping[int, Sequence[int]]) -> dict[int, int] | None:
    """Return a different row for every bundle from its `choices`; None if that is impossible.
    Bundles choose in the order of the mapping, and each takes its first free row. If all rows of a
    bundle are taken, as few other bundles as possible move to other rows.
    """
    holder: dict[int, int] = {}
    for bundle in choices:
        if not _augment(bundle, choices, holder):
            return None
    return {bundle: row for row, bundle in holder.items()}


def _augment(bundle: int, choices: Mapping[int, Sequence[int]], holder: dict[int, int]) -> bool:
    came_from: dict[int, int] = {}  # for each row, the bundle that would move to it
    waiting = deque([bundle])
    held = {held_by: row for row, held_by in holder.items()}
    while waiting:
        mover = waiting.popleft()
        for row in choices[mover]:
            if row in came_from:
                continue
            came_from[row] = mover
            if row in holder:
                waiting.append(holder[row])
                continue
            free: int | None = row
            while free is not None:
                mover = came_from[free]
                holder[free] = mover
                free = held.get(mover)
            return True
    return False
