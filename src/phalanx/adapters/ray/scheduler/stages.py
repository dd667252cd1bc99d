"""When gangs of late got where, for who measures the scheduler."""

from __future__ import annotations

KEPT = 4_096
"""Of so many gangs it is known."""
DECIDED, RESERVED = "decided", "reserved"
"""Nodes and Ray are asked for what a cycle chose; Ray holds it."""


class Stages:
    """Times by the machine's monotonic clock, of a gang's last attempt."""

    def __init__(self) -> None:
        self._times: dict[bytes, dict[str, float]] = {}

    def begin(self, group: bytes, now: float) -> None:
        """It is decided where the gang goes."""
        self._times.pop(group, None)
        self._times[group] = {DECIDED: now}
        if len(self._times) > KEPT:
            del self._times[next(iter(self._times))]

    def reserved(self, group: bytes, now: float) -> None:
        """Ray holds its places."""
        times = self._times.get(group)
        if times is not None:
            times[RESERVED] = now

    def of(self, groups: list[bytes]) -> list[dict[str, float]]:
        """Of each of these gangs what is known; times are in seconds."""
        return [self._times.get(group, {}) for group in groups]
