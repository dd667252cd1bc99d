"""Copies of the objects of nodes that died: which of them somebody here may still read.

Their owners have them made again, so they are of use only to who learned of them before. Each
process is asked once what it may still read; what nobody names goes, and the rest when its readers
end. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable


class LastReaders:
    """Of one node's copies. Names of files; processes by their ids."""

    def __init__(self) -> None:
        self._asked: dict[bytes, set[bytes]] = {}
        """Processes that have not answered yet, by the dead node's prefix."""
        self._readers: dict[str, set[bytes]] = {}
        """Who may still read each copy; of nodes whose copies are not settled yet, so far."""
        self._copies: dict[bytes, set[str]] = {}

    def node_gone(
        self, prefix: bytes, copies: Iterable[str], processes: Iterable[bytes]
    ) -> list[str]:
        """A node died of which these copies are here; `processes` are asked. What may go."""
        self._copies[prefix] = set(copies)
        self._asked[prefix] = set(processes)
        for name in self._copies[prefix]:
            self._readers[name] = set()
        return self._settle(prefix)

    def used(self, name: str, process: bytes) -> None:
        """A process reads an object, or may."""
        if name in self._readers:
            self._readers[name].add(process)

    def reported(self, prefix: bytes, process: bytes) -> list[str]:
        """A process has named all that it may still read. What may go."""
        if prefix not in self._asked:
            return []
        self._asked[prefix].discard(process)
        return self._settle(prefix)

    def process_gone(self, process: bytes) -> list[str]:
        """A process ended. What may go."""
        for readers in self._readers.values():
            readers.discard(process)
        for asked in self._asked.values():
            asked.discard(process)
        return [name for prefix in list(self._asked) for name in self._settle(prefix)]

    def dropped(self, name: str) -> None:
        """A copy is gone."""
        self._readers.pop(name, None)
        for prefix, copies in list(self._copies.items()):
            copies.discard(name)
            if not copies:
                del self._copies[prefix], self._asked[prefix]

    def _settle(self, prefix: bytes) -> list[str]:
        if self._asked[prefix]:
            return []
        return sorted(name for name in self._copies[prefix] if not self._readers[name])
