"""Notes of a node for the people who read its log."""

from __future__ import annotations

from typing import Protocol

from phalanx.observe.log_lines import INFO


class Note(Protocol):
    """Writes a line into the node's log. For `level` and `job`, see LogRecord."""

    def __call__(self, text: str, *, level: str = INFO, job: str = "") -> None:
        """Write a line for the people who read the log."""
        ...
