"""Who else holds references to this process's objects.

An owner keeps an object while any process has registrations for it. Registrations are counted:
a borrower's message that undoes old ones may cross one that makes new ones.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from phalanx.objects.reference import ObjectRef


class Lending:
    """Objects of this process that have left it, and the processes that hold them."""

    def __init__(self) -> None:
        self.exported: WeakValueDictionary[int, ObjectRef[Any]] = WeakValueDictionary()
        """Every object that ever left and still lives, by number."""
        self._kept: dict[int, ObjectRef[Any]] = {}
        self._counts: dict[int, dict[bytes, int]] = {}

    def add(self, number: int, borrower: bytes, count: int = 1) -> bool:
        """`borrower` holds object `number`. False when the object is gone already."""
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
        left = counts.get(borrower, 0) - count
        if left > 0:
            counts[borrower] = left
            return
        counts.pop(borrower, None)
        if not counts:
            del self._counts[number]
            self._kept.pop(number, None)

    def process_gone(self, borrower: bytes) -> None:
        """A process ended: it holds nothing any more."""
        for number in [n for n, counts in self._counts.items() if borrower in counts]:
            self.remove(number, borrower, self._counts[number][borrower])

    def borrowers(self, number: int) -> list[bytes]:
        """The processes that hold object `number`."""
        return list(self._counts.get(number, ()))

    def __len__(self) -> int:
        return len(self._kept)
