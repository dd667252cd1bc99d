"""Holds: reasons why a node or a device gets no new work.

A node or device may have several holds, and takes work again when no hold is left. Removing one
hold does not change the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CORDON = "cordon"
"""A user has closed the node or device; running work continues."""
DRAIN = "drain"
"""A user wants the node empty, at a given time or whenever possible."""
MAINTENANCE = "maintenance"
"""A reservation for maintenance has begun."""
HEALTH = "health"
"""The node itself is unhealthy."""
CHECK = "check"
"""A health check says that the node is unhealthy."""
DIRECTORIES = "directories"
"""A directory in which the node works is full, or cannot be written to."""
SHORTAGE = "shortage"
"""The node has run out of processes, memory or descriptors."""
RESTART = "restart"
"""The node's process has ended, and its next process is expected to continue the members there."""
UNWELL = (HEALTH, CHECK, DIRECTORIES, SHORTAGE)


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hold. Times are in seconds since the epoch."""

    reason: str = ""
    by: str = ""
    """The user who asked for the hold, as USER@HOST; "" if no user did."""
    since: float = 0.0
    deadline: float = 0.0
    """For a drain: the time at which the remaining work is ended; 0 if it is never ended."""


def holds_text(holds: Mapping[str, Hold]) -> str:
    """Return a clause that says why a node gets no new work; "" without holds."""
    return "; ".join(_one_text(kind, hold) for kind, hold in sorted(holds.items()))


def _one_text(kind: str, hold: Hold) -> str:
    by = f" by {hold.by}" if hold.by else ""
    if kind == CORDON:
        return f"cordoned{by}: {hold.reason}" if hold.reason else f"cordoned{by}"
    return f"{hold.reason} (asked{by})" if by else hold.reason


def cordoned_text(cordoned: Mapping[int, Hold]) -> str:
    """Return a clause that names the devices that users have closed; "" if none is closed."""
    devices = "1 device is" if len(cordoned) == 1 else f"{len(cordoned)} devices are"
    named = ", ".join(f"gpu{n} ({_one_text(CORDON, h)})" for n, h in sorted(cordoned.items()))
    return f"{devices} closed: {named}" if cordoned else ""
