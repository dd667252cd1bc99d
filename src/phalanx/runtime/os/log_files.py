"""A log of two files: lines are written to the newer one; the older one has the lines before.

Several processes may write to it. Each line begins with the time of writing, so the first bytes of
a file distinguish it from every other file, even if the system uses its inode again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import zlib

from phalanx.observe.log_lines import LogPiece

OLDER = ".1"
_MARK_BYTES = 34
"""The number of bytes at the beginning of a file that distinguish it: `{"time":"` and a time with
microseconds.
"""


def append(path: str, data: bytes, limit_bytes: int) -> os.stat_result:
    """Append to the log at `path`, mode 0600. Returns the file's status. Raises OSError.

    If the file is then larger than `limit_bytes`, it becomes the older file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, data)
        status = os.fstat(fd)
        if status.st_size > limit_bytes:
            fcntl.flock(fd, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):  # another process has done this before
                if os.path.samestat(os.fstat(fd), os.stat(path)):
                    os.replace(path, path + OLDER)
        return status
    finally:
        os.close(fd)


def read_on(path: str, file: int, offset: int, limit: int) -> LogPiece:
    """Return the part after `offset` of one of the log's files; at its end, the beginning of the
    next file.

    If the file is gone, reading begins at the oldest file. Returns at most `limit` bytes.
    """
    fds = _opened(path)
    try:
        marks = [_mark(fd) for fd in fds]
        at = marks.index(file) if file in marks else 0
        offset = offset if file in marks else 0
        for fd, mark in list(zip(fds, marks, strict=True))[at:]:
            data = os.pread(fd, limit, offset)
            data = data[: data.rfind(b"\n") + 1] or (data if len(data) == limit else b"")
            is_last = fd == fds[-1]
            if data or is_last:
                end = offset + len(data)
                return LogPiece(data, mark, end, is_last and end >= os.fstat(fd).st_size)
            offset = 0
        return LogPiece()
    finally:
        for fd in fds:
            os.close(fd)


def _opened(path: str) -> list[int]:
    """Open the older file and the newer file, as far as they exist.

    The newer file is opened first. So a file that becomes the older one meanwhile is not missed.
    """
    fds: list[int] = []
    for name in (path, path + OLDER):
        with contextlib.suppress(FileNotFoundError):
            fds.insert(0, os.open(name, os.O_RDONLY | os.O_NOFOLLOW))
    if len(fds) > 1 and os.path.samestat(os.fstat(fds[0]), os.fstat(fds[1])):
        os.close(fds.pop())
    return fds


def _mark(fd: int) -> int:
    return zlib.crc32(os.pread(fd, _MARK_BYTES, 0)) or 1
