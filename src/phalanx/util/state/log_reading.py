"""Reads the log of a daemon or worker from its start. A reader can follow a log while it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from phalanx.observe.log_lines import LogPiece, LogRecord
from phalanx.protocol.requests.logs import ReadProcessLog


class LogReading:
    """A position in a log, from which reading continues. Only one piece of the log is in memory at
    a time.
    """

    def __init__(self, ask: Callable[[ReadProcessLog], LogPiece], node: str, worker: str) -> None:
        """Begin at the log's start. `node` and `worker` are as in ReadProcessLog."""
        self._ask = ask
        self._node = node
        self._worker = worker
        self._file = self._offset = 0

    def parts(self) -> Iterator[list[bytes]]:
        """Yield the unread lines, without their ends, up to where the log ends now."""
        while True:
            piece = self._ask(ReadProcessLog(self._node, self._worker, self._file, self._offset))
            self._file, self._offset = piece.file, piece.offset
            yield piece.data.splitlines()
            if piece.is_end:
                return


def time_of(record: LogRecord) -> float:
    """Return the time at which a record was written, in seconds since the epoch."""
    return datetime.fromisoformat(record.time.replace("Z", "+00:00")).timestamp()
