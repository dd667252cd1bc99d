"""The times at which recent gangs reached each stage of their placement, for measurements of the
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.model.ids import GroupId

KEPT = 4_096
"""The number of gangs whose times are kept."""
DECIDED, RESERVED = "decided", "reserved"
"""The stages of a gang's placement. DECIDED: a cycle has chosen the places, and nodes and Ray are
asked for them. RESERVED: Ray has reserved the places.
"""


class Stages:
    """The times at which each gang's last attempt reached its stages, by the machine's monotonic
    clock.
    """

    def __init__(self) -> None:
        self._times: dict[GroupId, dict[str, float]] = {}

    def begin(self, gang: GroupId, now: float) -> None:
        """Note that a cycle decided on the gang's places."""
        self._times.pop(gang, None)
        self._times[gang] = {DECIDED: now}
        if len(self._times) > KEPT:
            del self._times[next(iter(self._times))]

    def reserved(self, gang: GroupId, now: float) -> None:
        """Note that Ray has reserved the gang's places."""
        times = self._times.get(gang)
        if times is not None:
            times[RESERVED] = now

    def of(self, gangs: Iterable[GroupId]) -> list[dict[str, float]]:
        """Return the known times, in seconds, of each of these gangs."""
        return [self._times.get(gang, {}) for gang in gangs]
