"""Lines of the logs of daemons and workers, and pieces of logs as messages carry them."""

from __future__ import annotations

import msgspec

INFO, WARNING, ERROR = "info", "warning", "error"


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a log. The line is JSON that begins with the time."""

    time: str
    """The time in ISO 8601, in UTC, with microseconds and a Z."""
    level: str = ""
    """A daemon's level: info, warning or error."""
    process: str = ""
    """A daemon's kind: head, node, gateway or fork server."""
    pid: int = 0
    """The process id of the daemon."""
    node: str = ""
    """The id of the daemon's node, in hex; "" for a head."""
    job: str = ""
    """The job that the line is about, if any: NAMESPACE/NAME of a job, or the number of a driver's
    job in hex.
    """
    stream: str = ""
    """A worker's stream: stdout or stderr."""
    name: str = ""
    """The name of the worker's task or actor that printed the line."""
    text: str


class LogPiece(msgspec.Struct, array_like=True):
    """A piece of a log. It ends with a whole line unless that line is longer than a piece.

    After a piece, the log may continue in another file. To get the next piece, a reader sends the
    `file` and `offset` of this piece.
    """

    data: bytes = b""
    file: int = 0
    """The number of the file from which the piece was read; 0 if no file exists yet."""
    offset: int = 0
    """The offset in the file at which the piece ends."""
    is_end: bool = True
    """Whether the log ends here at present."""


def record_of(line: bytes) -> LogRecord | None:
    """Return the record in a line; None for a line without a record, such as one that the
    interpreter printed.
    """
    try:
        return msgspec.json.decode(line, type=LogRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def daemon_text(record: LogRecord) -> str:
    """Return a daemon's record as text for display."""
    about = f" job={record.job}" if record.job else ""
    return f"{record.time} {record.level} {record.process}{about}: {record.text}"
