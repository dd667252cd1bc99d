"""Removes the containers of workers that were killed, in a process of its own.

The tool may take a second for each container, and the fork server must not wait that long.
"""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = ("-P", "-m", "phalanx.runtime.containers.leftovers")


class Removal:
    """The process that removes leftovers, whenever it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_due = False

    def want(self) -> None:
        """Request that `look` starts the process."""
        self._is_due = True

    def look(self) -> None:
        """Start the process if `want` was called. Do nothing while an earlier process runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = None
        if self._is_due:
            self._is_due = False
            quiet = subprocess.DEVNULL
            self._process = subprocess.Popen(
                [sys.executable, *_PROGRAM],
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                start_new_session=True,
            )

    @property
    def pids(self) -> set[int]:
        """The pid of the process, while it runs."""
        return set() if self._process is None else {self._process.pid}
