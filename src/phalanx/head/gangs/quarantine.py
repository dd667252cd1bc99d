"""Excludes gangs from cycles after an internal error, so that an error with one gang harms only
that gang.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.head.gangs.gang import Gang

Fails = Callable[[Sequence[Gang]], bool]
"""The function that runs a cycle over these gangs, and returns whether the cycle raised an
error.
"""


class Quarantine:
    """The gangs that are set aside, each with its error.

    These gangs keep their places, and get no other places until the head restarts.
    """

    def __init__(self, on_defect: Callable[[Exception, Gang], None]) -> None:
        """`on_defect` is called for each gang that is set aside."""
        self._on_defect = on_defect
        self.errors: dict[bytes, str] = {}
        """The error of each gang, by group."""

    def add(self, gang: Gang, error: Exception) -> None:
        """Set a gang aside, because a cycle failed to decide about it or its decision could not be
        carried out.
        """
        self.errors[gang.gang_id] = f"{type(error).__name__}: {error}"[:300]
        self._on_defect(error, gang)

    def forget(self, gang: Gang) -> None:
        """Forget a gang that is over."""
        self.errors.pop(gang.gang_id, None)

    def __contains__(self, gang: Gang) -> bool:
        return gang.gang_id in self.errors


def culprit(gangs: Sequence[Gang], fails: Fails) -> Gang | None:
    """Return the single gang that makes a cycle over all of these gangs fail; None if no single
    gang is the cause. The search runs a number of cycles that grows with the logarithm of the
    number of gangs.
    """
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
