"""Programs that say whether a node is well: when they run, and what they said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.observe.device_health import BAD, SUSPECT

PENDING = "pending"
"""It has not run yet since the node began."""
JOIN, IDLE, BEFORE, AFTER = "join", "idle", "before", "after"
"""When they run: as the node joins, while nothing runs there, and before and after a member that
has all its GPUs."""


class CheckState(msgspec.Struct, frozen=True, array_like=True):
    """A check that is not ok: suspect, bad or pending, and the last line that it printed."""

    name: str
    state: str
    said: str = ""


def bad_checks_text(checks: Sequence[CheckState]) -> str:
    """Why a node gets nothing new, in one clause; empty where it may."""
    return _text([one for one in checks if one.state in (BAD, PENDING)])


def suspect_checks_text(checks: Sequence[CheckState]) -> str:
    """Which checks warn, in one clause; empty where none does."""
    return _text([one for one in checks if one.state == SUSPECT])


def _text(checks: Sequence[CheckState]) -> str:
    return "; ".join(
        f"check {one.name} has not passed yet"
        if one.state == PENDING
        else f"check {one.name} is {one.state}{f': {one.said}' if one.said else ''}"
        for one in checks
    )
