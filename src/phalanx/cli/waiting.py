"""What a command says while its job waits: why, at which position, and when it may start."""

from __future__ import annotations

import time
from collections.abc import Callable

from phalanx.cli.table import say
from phalanx.model.jobs import states as st
from phalanx.model.readable import age
from phalanx.model.rows.work import JobInfo

FIRST_S = 0.5
"""A job that starts sooner is not worth a word."""
EVERY_S = 1.0


def notice(row: JobInfo) -> str:
    """A sentence about a job that waits; "" for one that does not."""
    if row.state not in (st.PENDING, ""):
        return ""
    parts = [f"position {row.position} of queue {row.queue}"] if row.position is not None else []
    expected = row.expected_start
    if expected is not None:
        kept = "" if expected.is_promised else " (nobody keeps it)"
        parts.append(f"expected to start in {age(expected.in_s)}{kept}")
    parts += [row.reason] if row.reason else []
    return f"job {row.name} waits: {'; '.join(parts)}" if parts else f"job {row.name} waits"


class Notices:
    """Says on the standard error what a job waits for: after a moment, and when that changes.

    What changes with each second (in how long it starts) is no news by itself.
    """

    def __init__(self, ask: Callable[[], JobInfo], is_quiet: bool) -> None:
        self._ask = ask
        self._is_quiet = is_quiet
        self._at = time.monotonic() + FIRST_S
        self._said: tuple[object, ...] = ()

    def look(self) -> None:
        """To be called while the job waits, as often as one likes."""
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
