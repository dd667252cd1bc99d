"""Lines of the logs of daemons and workers, and parts of such logs as they travel."""

from __future__ import annotations

import msgspec

INFO, WARNING, ERROR = "info", "warning", "error"


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a log: JSON, with the time first."""

    time: str
    """As in ISO 8601, in UTC, with microseconds and a Z."""
    level: str = ""
    """Of a daemon: info, warning or error."""
    process: str = ""
    """Of a daemon: head, node, gateway or fork server."""
    pid: int = 0
    """Of the daemon's process."""
    node: str = ""
    """The id of the node whose daemon it is, in hex; empty for a head."""
    job: str = ""
    """NAMESPACE/NAME of a job, or the number of a driver's job in hex, where it is about one."""
    stream: str = ""
    """Of a worker: stdout or stderr."""
    name: str = ""
    """Of a worker: the name of the task or actor that printed it."""
    text: str


class LogPiece(msgspec.Struct, array_like=True):
    """A part of a log that may have been turned over to a second file meanwhile: whole lines,
    unless one is longer than a part. Who reads on names `file` and `offset` of the part before."""

    data: bytes = b""
    file: int = 0
    """Stands for the file that the part is of; 0: there is none yet."""
    offset: int = 0
    """Where in it the part ends."""
    is_end: bool = True
    """There is no more for now."""


def record_of(line: bytes) -> LogRecord | None:
    """The line; None for one that the interpreter printed, and not the daemon or the worker."""
    try:
        return msgspec.json.decode(line, type=LogRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def daemon_text(record: LogRecord) -> str:
    """A daemon's record for people."""
    about = f" job={record.job}" if record.job else ""
    return f"{record.time} {record.level} {record.process}{about}: {record.text}"
