"""Gangs that a defect keeps out of cycles: what is wrong with one harms that one alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.head.gangs.gang import Gang

Fails = Callable[[Sequence[Gang]], bool]
"""Whether a cycle over these gangs raises an error."""


class Quarantine:
    """Those gangs, each with its error. They wait until they are ended, or the head starts again;
    what they hold they keep."""

    def __init__(self, on_defect: Callable[[Exception, Gang], None]) -> None:
        """`on_defect` hears of each."""
        self._on_defect = on_defect
        self.errors: dict[bytes, str] = {}
        """By group."""

    def add(self, gang: Gang, error: Exception) -> None:
        """Deciding about this gang, or doing what was decided, failed."""
        self.errors[gang.group] = f"{type(error).__name__}: {error}"[:300]
        self._on_defect(error, gang)

    def forget(self, gang: Gang) -> None:
        """It is over."""
        self.errors.pop(gang.group, None)

    def __contains__(self, gang: Gang) -> bool:
        return gang.group in self.errors


def culprit(gangs: Sequence[Gang], fails: Fails) -> Gang | None:
    """The gang without which a cycle over all of them would not have failed, found in a number of
    cycles that is logarithmic in theirs; None where it is no single gang."""
    if not gangs or fails(()):
        return None
    while len(gangs) > 1:
        first, rest = gangs[: len(gangs) // 2], gangs[len(gangs) // 2 :]
        if fails(first):
            gangs = first
        elif fails(rest):
            gangs = rest
        else:
            return None
    return gangs[0] if fails(gangs) else None
