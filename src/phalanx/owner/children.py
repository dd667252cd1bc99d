"""Work that tasks have started. It is cancelled together with them."""

from __future__ import annotations

from collections.abc import Callable

Parent = tuple[bytes, int]
"""A task or call that runs in this process, as (owner, number)."""


_KEPT = 1024
"""The number of a parent's children above which those that have ended are removed."""


class _Siblings:
    """The children of one parent."""

    __slots__ = ("look_at", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.look_at = _KEPT
        """The number of children at which those that have ended are next removed."""


class Children:
    """The numbers of this process's tasks and calls, by the work that started them."""

    def __init__(self, is_pending: Callable[[int], bool]) -> None:
        self._is_pending = is_pending
        self.by_parent: dict[Parent, _Siblings] = {}

    def __len__(self) -> int:
        """Return how many parents are known."""
        return len(self.by_parent)

    def add(self, parent: Parent, number: int) -> None:
        """Add a child of `parent`. The amortized time is constant."""
        siblings = self.by_parent.get(parent)
        if siblings is None:
            siblings = self.by_parent[parent] = _Siblings()
        numbers = siblings.numbers
        numbers.append(number)
        if len(numbers) >= siblings.look_at:
            # Most children of a long-running parent have ended. If not, the next removal waits
            # until there are twice as many.
            numbers[:] = [n for n in numbers if self._is_pending(n)]
            siblings.look_at = max(_KEPT, 2 * len(numbers))

    def of(self, parent: Parent) -> list[int]:
        """Return the children of `parent`. Most of them may have ended."""
        siblings = self.by_parent.get(parent)
        return [] if siblings is None else list(siblings.numbers)

    def forget(self, parent: Parent) -> None:
        """Forget a parent that has ended."""
        self.by_parent.pop(parent, None)
