"""The logs of a node's workers."""

from __future__ import annotations

import contextlib
import os

WORKER_LOG_BYTES = 16 << 20
"""Of each of a worker's two files."""


class WorkerLogFiles:
    """See local_processes.WorkerLogs. A file for each worker in `directory`, with mode 0600, and
    behind it one with what was printed before, once that is too much."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def append(self, pid: int, line: str) -> None:
        """See WorkerLogs."""
        path = os.path.join(self._directory, f"worker-{pid}.log")
        with contextlib.suppress(OSError):  # a full disk; drivers get the line all the same
            with open(path, "a", opener=_private) as file:
                file.write(line + "\n")
                is_full = file.tell() > WORKER_LOG_BYTES
            if is_full:
                os.replace(path, path + ".1")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
