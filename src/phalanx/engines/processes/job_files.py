"""What belongs to jobs on a node's disk: their files, their members' directories and logs."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Callable
from typing import NamedTuple

from phalanx.protocol.bundle_messages import FILES, Command, StartMember

LOG_BYTES = 64 << 20
"""So much of a member's output is kept, for each time that it was started."""
OLD_LOG_BYTES = 1 << 20
"""So much of what it printed before the last two times."""
_STAT_BLOCK = 512
_HOLE_ALIGN = 4096
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


class Placed(NamedTuple):
    """A command as it runs on this node."""

    argv: list[str]
    variables: dict[str, str]
    directory: str


class JobDirectories:
    """See job_members.JobFiles. A directory for each job below `root`; all have mode 0700."""

    def __init__(self, root: str) -> None:
        self._root = root

    def _directory(self, job: str) -> str:
        return os.path.join(self._root, job)

    def make(self, order: StartMember) -> str:
        """See JobFiles."""
        directory = self._directory(order.job)
        os.makedirs(os.path.join(directory, order.name), mode=0o700, exist_ok=True)
        if order.files:
            files = os.path.join(directory, "files")
            os.makedirs(files, mode=0o700, exist_ok=True)
            for name, text in order.files.items():
                with open(os.path.join(files, os.path.basename(name)), "w") as file:
                    file.write(text + "\n")
        old = os.path.join(directory, f"{order.name}.{order.attempt - 2}.log")
        if os.path.exists(old):
            shorten(old, OLD_LOG_BYTES)
        return os.path.join(directory, f"{order.name}.{order.attempt}.log")

    def place(self, order: StartMember, command: Command) -> Placed:
        """A member's command with this node's directories in its words and variables."""
        directory = self._directory(order.job)
        files = os.path.join(directory, "files")
        return Placed(
            [word.replace(FILES, files) for word in command.argv],
            {name: value.replace(FILES, files) for name, value in command.variables.items()},
            command.directory or os.path.join(directory, order.name),
        )

    def remove(self, job: str) -> None:
        """See JobFiles."""
        shutil.rmtree(self._directory(job), ignore_errors=True)

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """See JobFiles."""
        root, real = os.path.realpath(self._root), os.path.realpath(path)
        data, size, skipped = b"", -1, 0
        if real.startswith(root + os.sep):
            with contextlib.suppress(OSError), open(real, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                skipped = _length_of_hole(file.fileno(), offset)
                data = os.pread(file.fileno(), limit, offset + skipped)
        return data, size, skipped

    def shorten(self, path: str) -> None:
        """See JobFiles."""
        shorten(path, LOG_BYTES)


def shorten(path: str, limit_bytes: int) -> None:
    """Drop the older half of a file that takes more than so much of its disk; what is left of it
    stays where it is, behind a hole. So whoever appends to it need not know."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        if found.st_blocks * _STAT_BLOCK <= limit_bytes:
            return
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _drop_until(fd, (found.st_size - limit_bytes // 2) & -_HOLE_ALIGN)
        finally:
            os.close(fd)


def _drop_until(fd: int, end: int) -> None:
    if not _fallocate()(fd, _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, 0, end):
        return
    os.ftruncate(fd, 0)  # a file system without holes; appending goes on at its beginning


@functools.cache
def _fallocate() -> Callable[[int, int, int, int], int]:
    import ctypes  # not at the top: few jobs print so much

    function = ctypes.CDLL(None).fallocate
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return function


def _length_of_hole(fd: int, offset: int) -> int:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA) - offset
    except OSError:  # nothing stands behind it
        return 0
