"""Copies of the objects of dead nodes, and the processes of this node that may still read them.

Owners compute these objects again, so a copy is useful only to processes that know it already. Each
process is asked one time which copies it may still read. Copies that no process names are deleted
when all have answered; the others are deleted when their readers end. This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterable


class LastReaders:
    """The table of the last readers of copies from dead nodes. Copies are named by their files, and
    readers by the ids of their processes.
    """

    def __init__(self) -> None:
        self._asked: dict[bytes, set[bytes]] = {}
        """The processes that have not answered yet, by the prefix of the dead node."""
        self._readers: dict[str, set[bytes]] = {}
        """The known readers of each copy. The sets are incomplete while processes have not
        answered.
        """
        self._copies: dict[bytes, set[str]] = {}

    def node_gone(
        self, prefix: bytes, copies: Iterable[str], processes: Iterable[bytes]
    ) -> list[str]:
        """Note that a node is dead, and that `processes` are asked about these copies of its
        objects. Returns the copies that may be deleted now.
        """
        self._copies[prefix] = set(copies)
        self._asked[prefix] = set(processes)
        for name in self._copies[prefix]:
            self._readers[name] = set()
        return self._settle(prefix)

    def used(self, name: str, process: bytes) -> None:
        """Note that a process reads an object, or may read it."""
        if name in self._readers:
            self._readers[name].add(process)

    def reported(self, prefix: bytes, process: bytes) -> list[str]:
        """Note that a process has answered: it has named all copies that it may still read. Returns
        the copies that may be deleted now.
        """
        if prefix not in self._asked:
            return []
        self._asked[prefix].discard(process)
        return self._settle(prefix)

    def process_gone(self, process: bytes) -> list[str]:
        """Forget a process that has ended. Returns the copies that may be deleted now."""
        for readers in self._readers.values():
            readers.discard(process)
        for asked in self._asked.values():
            asked.discard(process)
        return [name for prefix in list(self._asked) for name in self._settle(prefix)]

    def dropped(self, name: str) -> None:
        """Forget a copy that is gone."""
        self._readers.pop(name, None)
        for prefix, copies in list(self._copies.items()):
            copies.discard(name)
            if not copies:
                del self._copies[prefix], self._asked[prefix]

    def _settle(self, prefix: bytes) -> list[str]:
        if self._asked[prefix]:
            return []
        return sorted(name for name in self._copies[prefix] if not self._readers[name])
