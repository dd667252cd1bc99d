"""The audit log in files of JSON lines with mode 0600. Only the latest files are kept."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import msgspec

from phalanx.model.rows.rights import AuditInfo
from phalanx.runtime.os.system import say

FILE_BYTES = 16 << 20
FILES = 4
"""The largest size in bytes of each file (FILE_BYTES), and the number of files that are kept,
including the newest (FILES).
"""
_READ_BYTES = 1 << 16


class AuditFile:
    """Appends records to a file. A full file is renamed to `PATH.1`, and the file that had this
    name to `PATH.2`.
    """

    def __init__(self, path: str, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        """Open the file. Its directory is made with mode 0700 if necessary. Raises OSError."""
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._fd = self._opened()
        self._has_failed = False

    def _opened(self) -> int:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        os.fchmod(fd, 0o600)
        self._size = os.fstat(fd).st_size
        return fd

    def add(self, record: AuditInfo) -> None:
        """Append a record. A record that cannot be appended goes into the head's log."""
        line = msgspec.json.encode(record.as_dict()) + b"\n"
        try:
            if not os.path.lexists(self._path):  # the file was removed
                self._open_anew()
            elif self._size and self._size + len(line) > self._file_bytes:
                self._rotate()
            self._size += os.write(self._fd, line)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                say(f"the audit log {self._path} cannot be written: {error.strerror}")
            self._has_failed = True
            say(f"audit: {line.decode()[:-1]}")

    def _rotate(self) -> None:
        for number in range(self._files - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.rename(self._name(number - 1), self._name(number))
        self._open_anew()

    def _open_anew(self) -> None:
        former, self._fd = self._fd, self._opened()
        os.close(former)

    def _name(self, number: int) -> str:
        return f"{self._path}.{number}" if number else self._path

    def latest(self, count: int, is_meant: Callable[[AuditInfo], bool]) -> list[AuditInfo]:
        """Return the last `count` records for which `is_meant` is true, oldest first."""
        found: list[AuditInfo] = []
        for line in self._backwards():
            with contextlib.suppress(msgspec.MsgspecError, TypeError):  # this line was cut short
                record = AuditInfo(**msgspec.json.decode(line))
                if is_meant(record):
                    found.append(record)
            if len(found) == count:
                break
        return found[::-1]

    def _backwards(self) -> Iterator[bytes]:
        for number in range(self._files):
            with contextlib.suppress(FileNotFoundError), open(self._name(number), "rb") as file:
                at, rest = file.seek(0, os.SEEK_END), b""
                while at:
                    size = min(_READ_BYTES, at)
                    at -= size
                    file.seek(at)
                    rest, *lines = (file.read(size) + rest).split(b"\n")
                    yield from (line for line in reversed(lines) if line)
                if rest:
                    yield rest
