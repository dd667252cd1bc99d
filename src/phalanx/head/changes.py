"""Versions of named things. Clients that keep a copy ask for the changes since a version."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ChangeLog(Generic[K]):
    """The version at which each thing last changed, ordered by version."""

    def __init__(self) -> None:
        self.version = 0
        self._changed_at: dict[K, int] = {}

    def note(self, name: K) -> None:
        """Note that a thing has changed, has come, or has gone."""
        self.version += 1
        self._changed_at.pop(name, None)
        self._changed_at[name] = self.version

    def since(self, version: int, most: int) -> tuple[int, list[K]]:
        """Return the current version, and the names of at most `most` things that changed after
        `version`, oldest change first.
        """
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
