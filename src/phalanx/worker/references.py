"""References that enter a task with its arguments, or leave it with its results."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef
from phalanx.worker.assigned import Key
from phalanx.worker.context import TaskContext


class References(Protocol):
    """The references of this process, which is also an owner and a borrower."""

    def adopt_for_task(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return the reference to an object that another process keeps alive for now."""
        ...

    def still_borrowed(self, owner: bytes, number: int) -> ObjectRef[Any] | None:
        """Return the reference to a borrowed object, if this process still holds one."""
        ...

    def keep(self, ref: ObjectRef[Any]) -> None:
        """Register as a borrower with the object's owner, unless this process is registered
        already.
        """
        ...

    def lend_to(self, refs: Sequence[ObjectRef[Any]], borrower: bytes) -> None:
        """Register `borrower` now as a borrower of the objects to which these references refer. The
        borrower will keep a value that contains the references.
        """
        ...


class TaskReferences:
    """Registers borrowers in time: before the process that keeps an object alive releases it."""

    def __init__(self, me: bytes, references: References, patience_s: float) -> None:
        """`patience_s`: seconds for which references are kept for a reader whose connection has
        ended. That reader may still register for them.
        """
        self._me = me
        self._references = references
        self._patience_s = patience_s
        self._kept: dict[Key, tuple[int, list[Sequence[ObjectRef[Any]]]]] = {}
        """By (reader, task number): the number of results that were not taken yet, and the
        references in them.
        """
        self._cut_off: deque[tuple[float, Key]] = deque()
        """References that are kept for readers whose connection has ended, and the time until which
        they are kept.

        Such a reader may still live, and may just be registering with the owners of the references.
        """

    def __bool__(self) -> bool:
        return bool(self._kept)

    # ---- arguments ---------------------------------------------------------------------------

    def adopt(
        self, refs: Sequence[tuple[bytes, int]], context: TaskContext
    ) -> list[ObjectRef[Any]]:
        """Return the references in an argument. The caller keeps them alive until the task ends."""
        if context.adopted is None:
            context.adopted = []
        context.adopted.extend(refs)
        return [self._references.adopt_for_task(owner, number) for owner, number in refs]

    def settle(self, context: TaskContext, caller: bytes) -> set[bytes]:
        """Register this process, at the end of a task, for the references in its arguments that it
        still holds.

        Returns the owners, other than the caller, that must handle these registrations before the
        caller releases the references.
        """
        third: set[bytes] = set()
        for owner, number in context.adopted or ():
            ref = self._references.still_borrowed(owner, number)
            if ref is not None:
                self._references.keep(ref)
                if owner != caller:
                    third.add(owner)
        context.adopted = None
        return third

    # ---- results -----------------------------------------------------------------------------

    def hand_over(self, refs: Sequence[ObjectRef[Any]], reader: bytes, number: int) -> None:
        """Keep the references in a result of task `number` until the reader of the result has
        registered.

        Only references to objects of third processes are kept.
        """
        self._references.lend_to(refs, reader)
        if any(ref._owner not in (self._me, reader) for ref in refs):
            count, kept = self._kept.get((reader, number), (0, []))
            self._kept[reader, number] = (count + 1, [*kept, refs])

    def taken(self, reader: bytes, number: int) -> None:
        """Release the references in a result whose reader has registered with their owners."""
        # A task may have many results, and their readers register in any order. So all references
        # are kept until each result has been taken.
        found = self._kept.get((reader, number))
        if found is None:
            return
        count, kept = found
        if count > 1:
            self._kept[reader, number] = (count - 1, kept)
        else:
            del self._kept[reader, number]

    def reader_lost(self, reader: bytes, is_gone: bool, now: float) -> None:
        """Handle the end of the connection to a reader. `is_gone`: whether the reader has ended."""
        for key in [key for key in self._kept if key[0] == reader]:
            if is_gone:
                del self._kept[key]
            else:
                self._cut_off.append((now + self._patience_s, key))

    def tick(self, now: float) -> None:
        """Release the references that were kept for long enough."""
        while self._cut_off and now >= self._cut_off[0][0]:
            self._kept.pop(self._cut_off.popleft()[1], None)
