"""Lost results that were made of the same things are made again together.

What a program has let go is made again for what was made of it, and each time takes a retry of its
task. Were four lost results of one such argument made again one by one, as somebody asks for each,
its task would run four times and its retries would be used up on the way. So as soon as one of them
is needed, all are: the argument is made once for all of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from phalanx.objects.reference import ObjectRef


class LostTogether:
    """Lost results that share an argument which was let go, be it far up their lineage."""

    __slots__ = ("_into", "_refs")

    def __init__(self) -> None:
        self._into: LostTogether | None = None
        self._refs: list[weakref.ref[ObjectRef[Any]]] = []

    def root(self) -> LostTogether:
        """The one that this was merged into."""
        root = self
        while root._into is not None:
            if root._into._into is not None:
                root._into = root._into._into
            root = root._into
        return root

    def merged(self, other: LostTogether) -> LostTogether:
        """Both as one."""
        more, fewer = self.root(), other.root()
        if more is not fewer:
            if len(more._refs) < len(fewer._refs):
                more, fewer = fewer, more
            more._refs += fewer._refs
            fewer._refs, fewer._into = [], more
        return more

    def add(self, ref: ObjectRef[Any]) -> None:
        """This is lost."""
        self._refs.append(weakref.ref(ref))

    def take(self) -> list[ObjectRef[Any]]:
        """All that were added, and are still referenced; none is left."""
        refs, self._refs = self._refs, []
        return [ref for each in refs if (ref := each()) is not None]


class Maker(Protocol):
    """What makes objects again, of others."""

    lost_together: LostTogether | None

    def gone_parents(self) -> Iterable[Maker]:
        """The makers of those of its arguments that were let go."""
        ...


def note_lost(ref: ObjectRef[Any], record: Maker) -> None:
    """`ref`, which `record` makes again, is lost: note it at whatever it was made of that was let
    go. What is above an argument that is noted already was walked then, so a lineage that many
    share is walked once."""
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
    """What else was lost that needs something which `record` needs anew, each once."""
    found: list[ObjectRef[Any]] = []
    for parent in record.gone_parents():
        if parent.lost_together is not None:
            found += parent.lost_together.root().take()
    return found
