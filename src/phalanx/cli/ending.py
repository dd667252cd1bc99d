"""The early end of a command."""

from __future__ import annotations


class Ended(Exception):
    """Raised to end a command with an exit code. The message was printed before."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code
        """The exit code of the process."""
