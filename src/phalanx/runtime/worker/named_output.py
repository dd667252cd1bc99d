"""A worker's output, marked with the name of the task that has printed it."""

from __future__ import annotations

import io
from typing import Any, TextIO

from phalanx.runtime.driver.interrupts import interruptible
from phalanx.worker.context import current

MARK = "\x1e"


class NamedOutput(io.TextIOBase):
    """A text stream. When another task begins to print, the stream first writes a line with a mark
    and the task's name.
    """

    def __init__(self, inner: TextIO, default_name: str) -> None:
        self._inner = inner
        self._last: str | None = None
        self._at_start = True
        self._holds_back = False
        """Whether the last write ended no line, so that the inner stream was not flushed."""
        self.default_name = default_name

    @interruptible  # waits here, where the user's code prints
    def write(self, text: str) -> int:
        """Write text. Flush at the end of each line, so that a killed worker loses no output."""
        if not text:
            return 0
        context = current.get()
        name = self.default_name or (context.name if context is not None else "")
        if name != self._last and self._at_start:
            self._last = name
            self._inner.write(f"{MARK}{name}\n")
        self._at_start = text.endswith("\n")
        self._inner.write(text)
        self._holds_back = "\n" not in text
        if not self._holds_back:
            self._inner.flush()
        return len(text)

    def flush_unfinished(self) -> None:
        """Send the unfinished line, because the task that has printed it may print nothing more for
        long.
        """
        if self._holds_back:
            self._holds_back = False
            self._inner.flush()

    @interruptible
    def flush(self) -> None:
        """Flush the underlying stream."""
        self._inner.flush()

    def fileno(self) -> int:
        """Return the descriptor of the underlying stream."""
        return self._inner.fileno()

    def isatty(self) -> bool:
        """Return False: the output is never a terminal."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the underlying stream."""
        return self._inner.encoding

    @property
    def buffer(self) -> Any:
        """The binary underlying stream."""
        return self._inner.buffer
