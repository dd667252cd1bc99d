"""What a node says to people."""

from __future__ import annotations

from typing import Protocol

from phalanx.observe.log_lines import INFO


class Note(Protocol):
    """Writes a line into the node's log; `level` and `job`: see LogRecord."""

    def __call__(self, text: str, *, level: str = INFO, job: str = "") -> None:
        """Something that a person who reads the log wants to know."""
        ...
