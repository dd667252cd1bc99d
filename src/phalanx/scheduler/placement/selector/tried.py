"""Remembers which nodes lately did not give an asker the amounts that it requested. For a while,
these amounts count as taken on these nodes.

The amounts that a node shows as free may be kept for other work, or may be outdated. An asker that
got nothing tries other nodes first. Otherwise it could return to the same node forever.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from phalanx.scheduler.devices.sets import EMPTY, ResourceSet

IN_VAIN_AFTER_S = 5.0
"""If a node has given nothing this many seconds after a request, the node counts as tried."""

FORGOTTEN_AFTER_S = 30.0
"""Seconds for which a tried node is skipped."""

Asker = TypeVar("Asker", bound=Hashable)


class _Attempt(NamedTuple):
    amounts: ResourceSet
    until: float
    """The time when the node begins to count as tried. If the node counts as tried already: the
    time when it no longer does.
    """


class TriedPlaces(Generic[Asker]):
    """The amounts that each asker requested in vain from each node. All times are in seconds of one
    clock.
    """

    def __init__(self) -> None:
        self._open: dict[Asker, dict[str, _Attempt]] = {}
        self._tried: dict[Asker, dict[str, _Attempt]] = {}

    def asked(self, who: Asker, amounts: Mapping[str, ResourceSet], now: float) -> None:
        """Record that `who` now waits for exactly these amounts, by node. The nodes showed them as
        free. If `who` already waited for a node, the time since the first request to that node
        counts.
        """
        before = self._open.pop(who, {})
        if amounts:
            self._open[who] = {
                node: _Attempt(
                    asked, before[node].until if node in before else now + IN_VAIN_AFTER_S
                )
                for node, asked in amounts.items()
            }

    def given(self, who: Asker, node: str) -> None:
        """Record that the node gave what was requested, so that the request no longer counts."""
        self._open.get(who, {}).pop(node, None)

    def refused(self, who: Asker, node: str, amounts: ResourceSet, now: float) -> None:
        """Record that the node refused the request. From now on it counts as tried."""
        self.given(who, node)
        tried = self._tried.setdefault(who, {})
        before = tried[node].amounts if node in tried else EMPTY
        tried[node] = _Attempt(before + amounts, now + FORGOTTEN_AFTER_S)

    def of(self, who: Asker, now: float) -> dict[str, ResourceSet]:
        """Return the amounts that `who` did not get, by node."""
        for node, attempt in list(self._open.get(who, {}).items()):
            if now >= attempt.until:
                self.refused(who, node, attempt.amounts, now)
        tried = self._tried.get(who)
        if tried is None:
            return {}
        for node, attempt in list(tried.items()):
            if now >= attempt.until:
                del tried[node]
        if not tried:
            del self._tried[who]
        return {node: attempt.amounts for node, attempt in tried.items()}

    def is_overdue(self, now: float) -> bool:
        """Whether any asker has waited so long for a node that `of` will count the node as
        tried.
        """
        attempts = (one for nodes in self._open.values() for one in nodes.values())
        return any(now >= one.until for one in attempts)

    def forget(self, who: Asker) -> None:
        """Forget an asker that no longer needs a place."""
        self._open.pop(who, None)
        self._tried.pop(who, None)
