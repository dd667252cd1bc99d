"""Prints the reason, the position and the expected start while a command's job waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.readable import duration
from phalanx.model.rows.work import JobInfo

FIRST_S = 0.5
"""Seconds of waiting before the first message."""
EVERY_S = 1.0
"""Seconds between two questions about the job."""


def notice(row: JobInfo) -> str:
    """Return a sentence about a waiting job; "" for a job that does not wait."""
    if row.state == st.PREPARING:
        return f"job {row.name}: {row.reason}"
    if row.state not in (st.PENDING, ""):
        return ""
    parts = [f"position {row.position} of queue {row.queue}"] if row.position is not None else []
    expected = row.expected_start
    if expected is not None:
        kept = "" if expected.is_promised else " (not promised)"
        parts.append(f"expected to start in {duration(expected.in_s)}{kept}")
    parts += [row.reason] if row.reason else []
    return f"job {row.name} waits: {'; '.join(parts)}" if parts else f"job {row.name} waits"


class Notices:
    """The messages about one waiting job on standard error. The reason is printed after FIRST_S,
    and again when the reason or the position changes. If only the time until the expected start
    changes, nothing is printed.
    """

    def __init__(self, ask: Callable[[], JobInfo], is_quiet: bool) -> None:
        self._ask = ask
        self._is_quiet = is_quiet
        self._at = time.monotonic() + FIRST_S
        self._said: tuple[object, ...] = ()

    def look(self) -> None:
        """Print a message if one is due. The method may be called at any time while the job
        waits.
        """
        now = time.monotonic()
        if self._is_quiet or now < self._at:
            return
        self._at = now + EVERY_S
        row = self._ask()
        text = notice(row)
        expected = row.expected_start
        news = (row.reason, row.position, expected is not None and expected.is_promised)
        if text and news != self._said:
            self._said = news
            say(text, err=True)
