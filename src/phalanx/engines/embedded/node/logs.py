"""The logs of a node's workers."""

from __future__ import annotations

import os


class WorkerLogFiles:
    """See local_processes.WorkerLogs. A file for each worker in `directory`, with mode 0600."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def append(self, pid: int, line: str) -> None:
        """See WorkerLogs."""
        path = os.path.join(self._directory, f"worker-{pid}.log")
        with open(path, "a", opener=_private) as file:
            file.write(line + "\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
