"""The processes that hold references to this process's objects.

An owner keeps an object while any borrower has registrations for it. Registrations are counted,
because two messages may cross each other: the borrower undoes its old registrations while this
process makes new registrations for the borrower.

When the connection to a borrower ends, some of these messages may be lost while the borrower lives.
Then all objects that it held are kept until it declares which of them it still holds, or is known
to be dead. Objects that are lent to it during that time are counted separately.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

from phalanx.objects.reference import ObjectRef


class Lending:
    """Objects of this process that have left it, and the processes that hold them."""

    def __init__(self) -> None:
        self.exported: WeakValueDictionary[int, ObjectRef[Any]] = WeakValueDictionary()
        """Every object that was ever lent and still exists, by number."""
        self._kept: dict[int, ObjectRef[Any]] = {}
        self._counts: dict[int, dict[bytes, int]] = {}
        self._uncertain: dict[bytes, dict[int, ObjectRef[Any]]] = {}
        """For each borrower whose connection ended: the objects that it held then. They are kept
        until the borrower declares which of them it still holds.
        """
        self._declared: dict[bytes, dict[int, int]] = {}
        """For each borrower: the registrations of its latest declaration that were not undone yet.

        A borrower may declare twice, because two processes may dial each other at the same time.
        """

    def add(self, number: int, borrower: bytes, count: int = 1) -> bool:
        """Count registrations of `borrower` for object `number`. Returns False if the object does
        not exist any more.
        """
        ref = self.exported.get(number)
        if ref is None:
            return False
        counts = self._counts.setdefault(number, {})
        counts[borrower] = counts.get(borrower, 0) + count
        self._kept[number] = ref
        return True

    def remove(self, number: int, borrower: bytes, count: int) -> None:
        """Undo `count` registrations of `borrower`."""
        counts = self._counts.get(number)
        if counts is None:
            return
        declared = self._declared.get(borrower)
        if declared is not None and number in declared:
            declared[number] = max(declared[number] - count, 0)
        left = counts.get(borrower, 0) - count
        if left > 0:
            counts[borrower] = left
            return
        counts.pop(borrower, None)
        if not counts:
            del self._counts[number]
            self._kept.pop(number, None)

    def connection_lost(self, borrower: bytes) -> bool:
        """Handle the end of the connection to a process that may still live and hold objects.

        Returns whether the process may hold an object.
        """
        self._declared.pop(borrower, None)
        for number in self._counted(borrower):
            self._uncertain.setdefault(borrower, {})[number] = self._kept[number]
            self.remove(number, borrower, self._counts[number][borrower])
        return borrower in self._uncertain

    def unsure(self) -> list[bytes]:
        """Return the borrowers that have not yet declared which objects they still hold."""
        return list(self._uncertain)

    def declare(self, borrower: bytes, counts: Iterable[tuple[int, int]]) -> None:
        """Handle the declaration of all objects that a borrower still holds, after the connection
        to the borrower had ended. `counts` has pairs (object, registrations).
        """
        before = self._declared.pop(borrower, {})
        declared = {n: count for n, count in counts if self.add(n, borrower, count)}
        for number, count in before.items():
            if count:
                self.remove(number, borrower, count)
        self._uncertain.pop(borrower, None)
        if declared:
            self._declared[borrower] = declared

    def process_gone(self, borrower: bytes) -> None:
        """Forget the registrations of a process that has ended."""
        self._uncertain.pop(borrower, None)
        self._declared.pop(borrower, None)
        for number in self._counted(borrower):
            self.remove(number, borrower, self._counts[number][borrower])

    def _counted(self, borrower: bytes) -> list[int]:
        return [n for n, counts in self._counts.items() if borrower in counts]

    def borrowers(self, number: int) -> list[bytes]:
        """Return the processes that hold or may hold object `number`."""
        uncertain = [b for b, held in self._uncertain.items() if number in held]
        return list(dict.fromkeys([*self._counts.get(number, ()), *uncertain]))

    def __len__(self) -> int:
        return len(self._kept.keys() | {n for held in self._uncertain.values() for n in held})
