"""References that cross the border of a task: those in its arguments and in its results."""

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
        """Return the reference to an object that somebody else keeps alive for now."""
        ...

    def still_borrowed(self, owner: bytes, number: int) -> ObjectRef[Any] | None:
        """Return the reference to a borrowed object, if anything here still holds it."""
        ...

    def keep(self, ref: ObjectRef[Any]) -> None:
        """Register with the owner as a borrower, unless that was done."""
        ...

    def lend_to(self, refs: Sequence[ObjectRef[Any]], borrower: bytes) -> None:
        """Register `borrower` at once for references in a value that it gets for good."""
        ...


class TaskReferences:
    """Registers borrowers in time: before the process that keeps the object alive lets go."""

    def __init__(self, me: bytes, references: References, patience_s: float) -> None:
        """`patience_s`: seconds for which references are kept for a reader whose connection has
        ended and who may still register for them.
        """
        self._me = me
        self._references = references
        self._patience_s = patience_s
        self._kept: dict[Key, tuple[int, list[Sequence[ObjectRef[Any]]]]] = {}
        """By (reader, task number): how many results were not taken yet, and their references."""
        self._cut_off: deque[tuple[float, Key]] = deque()
        """References kept for readers whose connection ended, and until when.

        Such a reader may live, and be about to register with the owners of the references.
        """

    def __bool__(self) -> bool:
        """Whether anything is kept until a reader of results has taken it."""
        return bool(self._kept)

    # ---- arguments ---------------------------------------------------------------------------

    def adopt(
        self, refs: Sequence[tuple[bytes, int]], context: TaskContext
    ) -> list[ObjectRef[Any]]:
        """Return the references in an argument; the caller keeps them until the task ends."""
        if context.adopted is None:
            context.adopted = []
        context.adopted.extend(refs)
        return [self._references.adopt_for_task(owner, number) for owner, number in refs]

    def settle(self, context: TaskContext, caller: bytes) -> set[bytes]:
        """Register, at the end of a task, for references of its arguments that are still held here.

        Returns the owners, other than the caller, who must have handled that before the caller lets
        go.
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
        """Keep the references in a result of task `number` until its reader has registered.

        This concerns references to objects of third processes.
        """
        self._references.lend_to(refs, reader)
        if any(ref._owner not in (self._me, reader) for ref in refs):
            count, kept = self._kept.get((reader, number), (0, []))
            self._kept[reader, number] = (count + 1, [*kept, refs])

    def taken(self, reader: bytes, number: int) -> None:
        """Let go of the references in a result whose reader has registered with their owners."""
        # A task may give many results, and their readers' registrations end in any order: all
        # references are kept until each result has been taken.
        found = self._kept.get((reader, number))
        if found is None:
            return
        count, kept = found
        if count > 1:
            self._kept[reader, number] = (count - 1, kept)
        else:
            del self._kept[reader, number]

    def reader_lost(self, reader: bytes, is_gone: bool, now: float) -> None:
        """Handle the end of the connection to a reader. `is_gone`: the reader has ended, too."""
        for key in [key for key in self._kept if key[0] == reader]:
            if is_gone:
                del self._kept[key]
            else:
                self._cut_off.append((now + self._patience_s, key))

    def tick(self, now: float) -> None:
        """Let go of what was kept long enough."""
        while self._cut_off and now >= self._cut_off[0][0]:
            self._kept.pop(self._cut_off.popleft()[1], None)
