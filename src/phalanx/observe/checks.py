"""The results of programs that check whether a node is healthy, and the times at which these
programs run.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.observe.device_health import BAD, SUSPECT

PENDING = "pending"
"""The state of a check that has not run yet since the node began."""
JOIN, IDLE, BEFORE, AFTER = "join", "idle", "before", "after"
"""The times at which checks run: when the node joins, while nothing runs there, and before and
after a member that has all GPUs of the node.
"""


class CheckState(msgspec.Struct, frozen=True, array_like=True):
    """A check that does not pass: its state (suspect, bad or pending), and the last line that it
    printed.
    """

    name: str
    state: str
    said: str = ""


def bad_checks_text(checks: Sequence[CheckState]) -> str:
    """Return a clause that names the checks that keep new work away from a node; "" if no check
    does that.
    """
    return _text([one for one in checks if one.state in (BAD, PENDING)])


def suspect_checks_text(checks: Sequence[CheckState]) -> str:
    """Return a clause that names the checks that warn; "" if no check warns."""
    return _text([one for one in checks if one.state == SUSPECT])


def _text(checks: Sequence[CheckState]) -> str:
    return "; ".join(
        f"check {one.name} has not passed yet"
        if one.state == PENDING
        else f"check {one.name} is {one.state}{f': {one.said}' if one.said else ''}"
        for one in checks
    )
