"""The times of recent gangs' steps, for measurements of the scheduler."""

from __future__ import annotations

KEPT = 4_096
"""The number of gangs whose times are kept."""
DECIDED, RESERVED = "decided", "reserved"
"""The steps: a cycle decided and asked nodes and Ray; Ray reserved the places."""


class Stages:
    """Times of each gang's last attempt, by the machine's monotonic clock."""

    def __init__(self) -> None:
        self._times: dict[bytes, dict[str, float]] = {}

    def begin(self, group: bytes, now: float) -> None:
        """Note that a cycle decided where the gang goes."""
        self._times.pop(group, None)
        self._times[group] = {DECIDED: now}
        if len(self._times) > KEPT:
            del self._times[next(iter(self._times))]

    def reserved(self, group: bytes, now: float) -> None:
        """Note that Ray has reserved the gang's places."""
        times = self._times.get(group)
        if times is not None:
            times[RESERVED] = now

    def of(self, groups: list[bytes]) -> list[dict[str, float]]:
        """Return the known times, in seconds, of each of these gangs."""
        return [self._times.get(group, {}) for group in groups]
