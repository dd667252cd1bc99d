"""The messages of a daemon to its operators: JSON lines in its log, or plain lines on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime

import msgspec

from phalanx.model.raw_bytes import encoded
from phalanx.observe.log_lines import INFO, LogPiece, LogRecord
from phalanx.runtime.os import log_files

DAEMON_LOG_BYTES = 16 << 20
"""The size in bytes of each of the two log files of a daemon."""


class DaemonLog:
    """The log of the daemon to which this process belongs."""

    def __init__(self) -> None:
        self._path = ""
        self._process = ""
        self._node = ""
        self._is_aloud = True

    def keep(self, path: str, process: str, node: str = "", *, is_aloud: bool = False) -> None:
        """Write to this file from now on.

        `node`: the id of the daemon's node. With `is_aloud`, lines go to standard error, too.
        """
        self._path, self._process, self._node = path, process, node
        self._is_aloud = is_aloud

    @property
    def kept(self) -> tuple[str, str, bool]:
        """The log's file, the id of the node, and whether lines also go to standard error."""
        return self._path, self._node, self._is_aloud

    def become(self, process: str) -> None:
        """Write to the same log under another name. This is for a child of the daemon."""
        self._process = process

    def write(self, text: str, level: str = INFO, job: str = "") -> None:
        """Write a line. If the line cannot be written, for example because the disk is full, the
        process continues.
        """
        with contextlib.suppress(OSError):
            if self._is_aloud:
                print(f"phalanx: {text}", file=sys.stderr, flush=True)
        if not self._path:
            return
        record = LogRecord(
            time=time_text(datetime.now(UTC)),
            level=level,
            process=self._process,
            pid=os.getpid(),
            node=self._node,
            job=job,
            text=text,
        )
        with contextlib.suppress(OSError):
            line = encoded(msgspec.json.encode, record) + b"\n"
            written = log_files.append(self._path, line, DAEMON_LOG_BYTES)
            if not self._is_aloud and not self._is_followed(written):
                self._follow()

    def read(self, file: int, offset: int, limit: int) -> LogPiece:
        """Read more of the log; see `log_files.read_on`."""
        return log_files.read_on(self._path, file, offset, limit) if self._path else LogPiece()

    def _is_followed(self, written: os.stat_result) -> bool:
        """Whether the standard streams write to the newer log file. `written` is the status of the
        file to which a line was just appended.
        """
        is_newer = written.st_size <= DAEMON_LOG_BYTES
        return is_newer and os.path.samestat(written, os.fstat(2))

    def _follow(self) -> None:
        """Make the standard streams write to the log's new file after a change of files.

        So other output, such as that of the interpreter at a crash, goes to the new file, too.
        """
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if not os.path.samestat(os.fstat(fd), os.fstat(2)):
                os.dup2(fd, 1)
                os.dup2(fd, 2)
        finally:
            os.close(fd)


def time_text(at: datetime) -> str:
    """Return a time in UTC in the form of LogRecord.time."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def plain(line: str) -> str:
    """Return the text of a log's line. A line that is not a record is returned unchanged."""
    try:
        return msgspec.json.decode(line, type=LogRecord).text
    except msgspec.MsgspecError:
        return line


LOG = DaemonLog()
"""The log of this process."""
