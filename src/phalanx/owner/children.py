"""Work that tasks have started: it is cancelled with them."""

from __future__ import annotations

from collections.abc import Callable

Parent = tuple[bytes, int]
"""(owner, number) of a task or call that runs in this process."""


class Children:
    """Numbers of this process's tasks and calls, by the work that started them."""

    def __init__(self, is_pending: Callable[[int], bool]) -> None:
        self._is_pending = is_pending
        self._children: dict[Parent, list[int]] = {}

    def __len__(self) -> int:
        """How many parents are known."""
        return len(self._children)

    def add(self, parent: Parent, number: int) -> None:
        """`parent` has started this."""
        children = self._children.setdefault(parent, [])
        children.append(number)
        if len(children) & 1023 == 0:  # most children of a parent that runs long have ended
            children[:] = [n for n in children if self._is_pending(n)]

    def of(self, parent: Parent) -> list[int]:
        """What `parent` has started; most of it may have ended."""
        return list(self._children.get(parent, ()))

    def forget(self, parent: Parent) -> None:
        """The parent has ended."""
        self._children.pop(parent, None)
