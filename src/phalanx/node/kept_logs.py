"""The logs of members that have ended here. Decides how much of them is kept, and for how long.

This module is pure. Logs are dropped, the oldest first, when all logs together take too much room
or when the disk is full. A very old log is dropped in any case. Logs of running members have their
own limit and are not counted.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from phalanx.model.ids import JobId

KEPT_S = 30 * 86_400.0
"""Seconds for which a log is kept."""


class LogFiles(Protocol):
    """Measures and frees log files."""

    def size(self, path: str) -> int:
        """Return the bytes that a log takes on its disk."""
        ...

    def most_kept(self) -> int:
        """Return the bytes that all logs of ended members may take."""
        ...

    def drop(self, path: str) -> None:
        """Free the disk space of a log. Readers of the log learn how many bytes are missing."""
        ...


class _Kept(NamedTuple):
    job: JobId
    path: str
    size: int
    ended_at: float


class KeptLogs:
    """The logs that a node keeps, in the order in which their members ended."""

    def __init__(self, files: LogFiles) -> None:
        self._files = files
        self._kept: deque[_Kept] = deque()
        self._total = 0

    def ended(self, job: JobId, path: str, now: float) -> None:
        """Keep the log of a member that has ended."""
        size = self._files.size(path)
        if not size:
            return
        self._kept.append(_Kept(job, path, size, now))
        self._total += size
        most = self._files.most_kept()
        while self._total > most and self.drop_oldest():
            pass

    def begins_again(self, path: str) -> None:
        """Stop counting a log, because a member prints into it again."""
        self._uncount([one for one in self._kept if one.path == path])

    def forget(self, job: JobId) -> None:
        """Forget the logs of a job that is gone. For an array, forget the logs of all its array
        tasks.
        """
        self._uncount([one for one in self._kept if _is_of(one.job, job)])

    def drop_oldest(self) -> bool:
        """Drop the oldest log. Returns False if no log is left."""
        if not self._kept:
            return False
        oldest = self._kept.popleft()
        self._total -= oldest.size
        self._files.drop(oldest.path)
        return True

    def tick(self, now: float) -> None:
        """Drop the logs that are older than KEPT_S."""
        while self._kept and now - self._kept[0].ended_at > KEPT_S:
            self.drop_oldest()

    def _uncount(self, gone: list[_Kept]) -> None:
        if gone:
            self._total -= sum(one.size for one in gone)
            known = set(gone)
            self._kept = deque(one for one in self._kept if one not in known)


def _is_of(job: JobId, name: str) -> bool:
    return job == name or job.startswith(f"{name}[")
