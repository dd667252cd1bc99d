"""Groups of lost results that were made from the same arguments, and are made again together.

Before a lost result is made again, the arguments that the program no longer holds must be made
again, and each time this takes a retry of the argument's task. If four lost results of one argument
were made again one after another, that task would run four times and use up its retries. So as soon
as one of the results is needed, all of them are made again, and the argument is made once for all.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef


class LostTogether:
    """Lost results that share an argument which the program no longer holds. The argument may be
    far back in their lineage.
    """

    __slots__ = ("_into", "_refs")

    def __init__(self) -> None:
        self._into: LostTogether | None = None
        self._refs: list[weakref.ref[ObjectRef[Any]]] = []

    def root(self) -> LostTogether:
        """Return the group into which this group was merged."""
        root = self
        while root._into is not None:
            if root._into._into is not None:
                root._into = root._into._into
            root = root._into
        return root

    def merged(self, other: LostTogether) -> LostTogether:
        """Merge both groups, and return the merged group."""
        more, fewer = self.root(), other.root()
        if more is not fewer:
            if len(more._refs) < len(fewer._refs):
                more, fewer = fewer, more
            more._refs += fewer._refs
            fewer._refs, fewer._into = [], more
        return more

    def add(self, ref: ObjectRef[Any]) -> None:
        """Add a lost result."""
        self._refs.append(weakref.ref(ref))

    def take(self) -> list[ObjectRef[Any]]:
        """Return all added results that are still referenced, and remove all results from the
        group.
        """
        refs, self._refs = self._refs, []
        return [ref for each in refs if (ref := each()) is not None]


class Maker(Protocol):
    """Makes objects again from other objects."""

    lost_together: LostTogether | None

    def gone_parents(self) -> Iterable[Maker]:
        """Return the work that made those arguments which the program no longer holds."""
        ...


def note_lost(ref: ObjectRef[Any], record: Maker) -> None:
    """Note that `ref`, which `record` can make again, is lost.

    At each ancestor that the program no longer holds, `ref` joins the group of the lost results
    that depend on this ancestor. If an ancestor has a group already, its own ancestors have been
    visited. So a lineage that many objects share is visited only once.
    """
    group: LostTogether | None = None
    todo = [record]
    while todo:
        for parent in todo.pop().gone_parents():
            known = parent.lost_together
            if known is None:
                parent.lost_together = group = group or LostTogether()
                todo.append(parent)
            else:
                group = known.merged(group) if group is not None else known.root()
    if group is not None:
        group.add(ref)


def take_others(record: Maker) -> list[ObjectRef[Any]]:
    """Return the lost results that depend on an argument which must be made again for `record`.
    Each call returns only results that no earlier call has returned.
    """
    found: list[ObjectRef[Any]] = []
    for parent in record.gone_parents():
        if parent.lost_together is not None:
            found += parent.lost_together.root().take()
    return found
