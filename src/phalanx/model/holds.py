"""Why a node or a device is given nothing new: holds, of which each may have several.

A node takes work again when its last hold is gone: who lifts his own leaves those of others.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

CORDON = "cordon"
"""Somebody has closed it; what runs goes on."""
DRAIN = "drain"
"""Somebody wants it empty, at a time or whenever it is."""
MAINTENANCE = "maintenance"
"""A reservation for a maintenance has begun."""
HEALTH = "health"
"""It is not well itself."""
CHECK = "check"
"""A check says that it is not well."""
DIRECTORIES = "directories"
"""A directory that it works in is full, or cannot be written to."""
UNWELL = (HEALTH, CHECK, DIRECTORIES)


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of them. Times are in seconds since the epoch."""

    reason: str = ""
    by: str = ""
    """Who asked for it, as USER@HOST; empty: nobody in person."""
    since: float = 0.0
    deadline: float = 0.0
    """Of a drain: when what still runs is ended; 0: never."""


def holds_text(holds: Mapping[str, Hold]) -> str:
    """Why it is given nothing new, in one clause; empty where there is no hold."""
    return "; ".join(_one_text(kind, hold) for kind, hold in sorted(holds.items()))


def _one_text(kind: str, hold: Hold) -> str:
    by = f" by {hold.by}" if hold.by else ""
    if kind == CORDON:
        return f"cordoned{by}: {hold.reason}" if hold.reason else f"cordoned{by}"
    return f"{hold.reason} (asked{by})" if by else hold.reason


def cordoned_text(cordoned: Mapping[int, Hold]) -> str:
    """Which devices somebody has closed, in one clause; empty where none is."""
    devices = "1 device is" if len(cordoned) == 1 else f"{len(cordoned)} devices are"
    named = ", ".join(f"gpu{n} ({_one_text(CORDON, h)})" for n, h in sorted(cordoned.items()))
    return f"{devices} closed: {named}" if cordoned else ""
