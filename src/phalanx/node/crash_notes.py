"""Writes notes about crashed workers into the node's log. The first crash of a job's worker for a
given reason is noted immediately. Later crashes of the same job for the same reason are counted,
and from time to time one line reports their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from phalanx.node.notes import Note
from phalanx.observe.log_lines import WARNING

FIRST_GAP_S = 5.0
"""Seconds from the note about the first crash to the first line that reports a number of crashes.
The time doubles with each such line.
"""
LONGEST_GAP_S = 60.0
"""The longest time, in seconds, between two lines that report a number of crashes."""
_PROCESS = re.compile(r"\bprocess \d+")


class _Crashes(msgspec.Struct):
    """The crashes of one job that have the same reason."""

    since: float
    gap_s: float = FIRST_GAP_S
    folded: int = 0
    last: str = ""


class CrashNotes:
    """Writes few lines about many crashes of the same kind."""

    def __init__(self, note: Note, clock: Callable[[], float]) -> None:
        self._note = note
        self._clock = clock
        self._known: dict[tuple[str, str], _Crashes] = {}

    def crashed(self, worker: str, job: str, reason: str) -> None:
        """Note that a worker of this job has ended for this reason."""
        key = (job, _PROCESS.sub("process", reason))
        known = self._known.get(key)
        line = f"{worker}: {reason}"
        if known is None:
            self._known[key] = _Crashes(self._clock())
            self._note(line, level=WARNING, job=job)
            return
        known.folded += 1
        known.last = line

    def tick(self, now: float) -> None:
        """Write those lines about numbers of crashes that are due."""
        for key, known in list(self._known.items()):
            if now < known.since + known.gap_s:
                continue
            if not known.folded:
                del self._known[key]
                continue
            lasted_s = now - known.since
            text = f"{known.folded} more ended in the same way in {lasted_s:.0f} s; the last: "
            self._note(text + known.last, level=WARNING, job=key[0])
            gap_s = min(known.gap_s * 2, LONGEST_GAP_S)
            self._known[key] = _Crashes(now, gap_s)
