"""The logs of a node: its own, and those of its workers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from phalanx.model.raw_bytes import encoded
from phalanx.observe.log_lines import LogPiece, LogRecord
from phalanx.protocol.node_messages import LogLine
from phalanx.runtime.os import log_files
from phalanx.runtime.os.daemon_log import LOG, time_text

WORKER_LOG_BYTES = 16 << 20
"""The largest size in bytes of each of the two log files of a worker."""
ALL_LOGS_BYTES = 1 << 30
"""The largest size in bytes of the logs of all workers on a node together."""


class NodeLogFiles:
    """Logs of workers. Each worker has a file in `directory`, named by the worker's id."""

    def __init__(self, directory: str, wall: Callable[[], float]) -> None:
        self._directory = directory
        self._wall = wall
        self._written: dict[str, int] = {}
        """For each worker: the largest number of bytes that its log can take on the disk. The
        worker with the oldest log comes first.
        """
        self._total = 0

    def append(self, worker: str, line: LogLine) -> None:
        """Append a line that a worker has printed."""
        record = LogRecord(
            time=time_text(datetime.fromtimestamp(self._wall(), UTC)),
            stream="stderr" if line.is_error else "stdout",
            name=line.name,
            text=line.line,
        )
        data = encoded(msgspec.json.encode, record) + b"\n"
        # The disk is full, but drivers still get the line.
        with contextlib.suppress(OSError):
            log_files.append(self._path(worker), data, WORKER_LOG_BYTES)
        self._count(worker, len(data))

    def read(self, worker: str, file: int, offset: int, limit: int) -> LogPiece:
        """Return a part of a worker's log, or of the node's own log when `worker` is empty."""
        if not worker:
            return LOG.read(file, offset, limit)
        if not worker.isalnum():  # the id comes from another machine, and becomes part of a path
            return LogPiece()
        return log_files.read_on(self._path(worker), file, offset, limit)

    def _path(self, worker: str) -> str:
        return os.path.join(self._directory, f"worker-{worker}.log")

    def _count(self, worker: str, size: int) -> None:
        before = self._written.get(worker, 0)
        after = min(before + size, 2 * WORKER_LOG_BYTES)
        self._written[worker] = after
        self._total += after - before
        while self._total > ALL_LOGS_BYTES and len(self._written) > 1:
            oldest = next(iter(self._written))
            if oldest == worker:
                self._written[worker] = self._written.pop(worker)
                continue
            self._total -= self._written.pop(oldest)
            for suffix in ("", log_files.OLDER):
                with contextlib.suppress(OSError):
                    os.unlink(self._path(oldest) + suffix)
