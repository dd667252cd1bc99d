"""Versions of named things. Clients that keep a copy ask for the changes since a version."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ChangeLog(Generic[K]):
    """A log of named things, ordered by the version at which each last changed."""

    def __init__(self) -> None:
        self.version = 0
        self._changed_at: dict[K, int] = {}

    def note(self, name: K) -> None:
        """Note that a thing was added, changed or removed."""
        self.version += 1
        self._changed_at.pop(name, None)
        self._changed_at[name] = self.version

    def forget(self, name: K) -> None:
        """Forget a thing that is gone, because no client needs to know that."""
        self._changed_at.pop(name, None)

    def since(self, version: int, most: int = sys.maxsize) -> tuple[int, list[K]]:
        """Return (version, names): the names of things that changed after `version`, the oldest
        change first, at most `most` names. The returned version is the version of the last of these
        names if more follow, and otherwise the latest. A `version` beyond this log's latest comes
        from another log, so all things are returned.
        """
        if version > self.version:
            version = 0
        names = [name for name, _ in self._newest(version)]
        names.reverse()
        told = names[:most]
        reached = self._changed_at[told[-1]] if len(names) > most else self.version
        return reached, told

    def _newest(self, version: int) -> Iterator[tuple[K, int]]:
        for name in reversed(self._changed_at):
            at = self._changed_at[name]
            if at <= version:
                return
            yield name, at
