"""The files of jobs on a node's disk: files that a job was given, and the directories and logs of
its members.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import shutil
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from phalanx.model.ids import JobId
from phalanx.model.member_logs import preparing_log, task_name
from phalanx.model.raw_bytes import native
from phalanx.protocol.bundle_messages import ERROR_FILE, FILES, Command, StartMember
from phalanx.runtime.os.below import directory_name, make_below, open_below
from phalanx.runtime.os.package_files import PackageDirectory

LOG_BYTES = 64 << 20
"""The largest number of bytes of a member's output that are kept, for each attempt."""
LOG_PART = 16
"""The output of an attempt takes at most the size of its file system divided by this number."""
LEAST_LOG_BYTES = 256 << 10
KEPT_BYTES = 8 << 30
"""The largest number of bytes that are kept of the output of all ended members together."""
KEPT_PART = 10
"""The output of all ended members together takes at most the size of its file system divided by
this number.
"""
OLD_LOG_BYTES = 1 << 20
"""The largest number of bytes of output that are kept for each attempt, except for the last two
attempts.
"""
_LOG = ".log"
_STAT_BLOCK = 512
_HOLE_ALIGN = 4096
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


class Placed(NamedTuple):
    """A command in the form in which it runs on this node."""

    argv: list[str]
    variables: dict[str, str]
    directory: str


class JobDirectories:
    """The directories of jobs below `root`, one for each job; all have mode 0700.

    Users choose the names of jobs and members, so no name becomes a part of a path as it is. Links
    that a job puts into its own directory are not followed.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.packages = PackageDirectory(os.path.join(root, "packages"))

    @functools.cached_property
    def _disk_bytes(self) -> int:
        """The size in bytes of the file system of the directories."""
        path = self.root
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    @functools.cached_property
    def _log_bytes(self) -> int:
        """The largest number of bytes of one log that are kept."""
        return min(LOG_BYTES, max(self._disk_bytes // LOG_PART, LEAST_LOG_BYTES))

    def _directory(self, job: JobId) -> str:
        return os.path.join(self.root, _below(job))

    def make(self, order: StartMember) -> str:
        """Write the member's files, and shorten the log of an older attempt. Returns the path of
        the member's log.
        """
        directory, member = self._directory(order.job), directory_name(order.name)
        commands = (*order.before, *order.commands)
        if order.prepare is not None or not all(command.directory for command in commands):
            self._make_home(order)
        for name, text in order.files.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            fd = open_below(directory, f"files/{os.path.basename(name)}", flags)
            with open(fd, "wb") as file:
                file.write(os.fsencode(native(text)) + b"\n")
        number, beside = order.start_number, _beside(order.job)
        if order.prepare is not None:
            for name in self._logs(order):
                os.close(open_below(self.root, name, os.O_WRONLY | os.O_CREAT))
        if number > 2:
            old = os.path.join(self.root, beside + _log(member, number - 2))
            self._shorten(old, min(OLD_LOG_BYTES, self._log_bytes))
        return os.path.join(self.root, beside + _log(member, number))

    def _logs(self, order: StartMember) -> list[str]:
        """Return the paths below `root` of a member's log, and of the log of its preparation if
        there is one.
        """
        log = _beside(order.job) + _log(directory_name(order.name), order.start_number)
        return [log] if order.prepare is None else [log, preparing_log(log)]

    def give_packages(self, order: StartMember) -> None:
        """Link a member's packages among the files of its job. Raises OSError."""
        files = f"{_below(order.job)}/files"
        make_below(self.root, files)
        for package in order.packages:
            target = os.path.join(self.root, files, package.file)
            with contextlib.suppress(FileExistsError):
                os.link(self.packages.path(package.sha256), target)

    def place(self, order: StartMember, command: Command) -> Placed:
        """Return a member's command with the directories of this node filled in."""
        directory = self._directory(order.job)
        if not command.directory:  # a step may be the first process that runs on this node
            # If the directory does not exist, the command's log reports it.
            with contextlib.suppress(OSError):
                self._make_home(order)
        files = os.path.join(directory, "files")
        error = self.error_path(order)

        def placed(text: str) -> str:
            return text.replace(FILES, files).replace(ERROR_FILE, error)

        argv, variables = command.argv, command.variables
        # Both placeholders begin with this text, and almost no other text contains it.
        if "\0" in "".join(argv):
            argv = [placed(word) for word in argv]
        if "\0" in "".join(variables.values()):
            variables = {
                name: placed(value) if "\0" in value else value for name, value in variables.items()
            }
        return Placed(argv, variables, command.directory or self.home(order))

    def home(self, order: StartMember) -> str:
        """Return the directory in which a member's commands run if they name no directory."""
        return os.path.join(self._directory(order.job), directory_name(order.name))

    def error_path(self, order: StartMember) -> str:
        """Return the file into which a member can write why it failed."""
        return os.path.join(self.root, _error(order))

    def _make_home(self, order: StartMember) -> None:
        make_below(self.root, f"{_below(order.job)}/{directory_name(order.name)}")

    def error(self, order: StartMember, limit: int) -> bytes:
        """Return the error that a member has written, at most `limit` bytes."""
        with contextlib.suppress(OSError):
            # A pipe may be at this path.
            fd = open_below(self.root, _error(order), os.O_RDONLY | os.O_NONBLOCK)
            try:
                return os.read(fd, limit)
            finally:
                os.close(fd)
        return b""

    def remove(self, job: JobId) -> None:
        """Delete a job's directory."""
        shutil.rmtree(self._directory(job), ignore_errors=True)

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        """Return (data, size, bytes skipped) of a log from `offset` on. The size is -1 if there is
        no log.
        """
        data, size, skipped = b"", -1, 0
        with contextlib.suppress(OSError):
            fd = open_below(self.root, os.path.relpath(path, self.root), os.O_RDONLY)
            with open(fd, "rb") as file:
                size = os.fstat(fd).st_size
                skipped = _length_of_hole(fd, offset)
                data = os.pread(file.fileno(), limit, offset + skipped)
        return data, size, skipped

    def shorten(self, path: str, before: int | None = None) -> None:
        """Drop the older half of a log that is too large, but only output before the offset
        `before`.
        """
        self._shorten(path, self._log_bytes, before)

    def is_lost(self, path: str) -> bool:
        """Whether the log is gone from the path to which it was written."""
        return not os.path.lexists(path)

    def size(self, path: str) -> int:
        """Return the bytes that a log takes on the disk."""
        with contextlib.suppress(OSError):
            return os.lstat(path).st_blocks * _STAT_BLOCK
        return 0

    def earlier_logs(self) -> list[tuple[str, float]]:
        """Return the logs that earlier processes of the node have left, the oldest first, each with
        the seconds since it was last written. Only files that this account can list are found.
        """
        now, found = time.time(), []
        # Directories below a job's own hold files of users, which are never dropped.
        for path in glob.iglob(os.path.join(glob.escape(self.root), "*", f"*.[0-9]*{_LOG}")):
            with contextlib.suppress(OSError):
                seen = os.lstat(path)
                if stat.S_ISREG(seen.st_mode):
                    found.append((path, max(now - seen.st_mtime, 0.0)))
        return sorted(found, key=lambda one: -one[1])

    def most_kept(self) -> int:
        """Return the number of bytes that the logs of ended members may take."""
        return min(KEPT_BYTES, self._disk_bytes // KEPT_PART)

    def drop(self, path: str) -> None:
        """Free the disk space of a log."""
        self._shorten(path, 0)

    def _shorten(self, path: str, limit_bytes: int, before: int | None = None) -> None:
        """Drop the older half of a file that takes more than this many bytes of its disk.

        The rest stays at its offset, behind a hole, so processes can append to it as before. On a
        file system without holes, the whole file is dropped, unless a part must stay.
        """
        with contextlib.suppress(OSError):
            if os.lstat(path).st_blocks * _STAT_BLOCK <= limit_bytes:
                return
            fd = open_below(self.root, os.path.relpath(path, self.root), os.O_WRONLY)
            try:
                size = os.fstat(fd).st_size
                end = size - limit_bytes // 2 if limit_bytes else size
                if before is not None and before < end:
                    _punch(fd, before & -_HOLE_ALIGN)
                elif not _punch(fd, end & -_HOLE_ALIGN if limit_bytes else end):
                    os.ftruncate(fd, 0)  # appending continues at the beginning of the file
            finally:
                os.close(fd)


def _below(job: JobId) -> str:
    """Return a job's directory. The directory of an array task, `NAME[7]`, is inside that of its
    array.
    """
    directory, task = _parts(job)
    return f"{directory}/{task}" if task else directory


def _beside(job: JobId) -> str:
    """Return the beginning of the paths of a job's logs.

    The logs of an array's tasks lie side by side, because making a directory for each takes longer
    than running a short command.
    """
    directory, task = _parts(job)
    return f"{directory}/{task}-" if task else f"{directory}/"


@functools.lru_cache(maxsize=1024)
def _parts(job: JobId) -> tuple[str, str]:
    """Return the directory of a job, or of its array, and the name of the array task in it, or
    "".
    """
    array, bracket, index = job.partition("[")
    if bracket and index.endswith("]") and index[:-1].isdecimal() and index.isascii():
        return directory_name(array), task_name(index[:-1])
    return directory_name(job), ""


def _log(member: str, attempt: int) -> str:
    return f"{member}.{attempt}{_LOG}"


def _error(order: StartMember) -> str:
    """Return the path below `root` of the file for a member's error."""
    return f"{_beside(order.job)}{directory_name(order.name)}.{order.start_number}.error.json"


def _punch(fd: int, end: int) -> bool:
    """Free the disk space of the file before `end`. Returns whether the file system can do that."""
    return end <= 0 or not _fallocate()(fd, _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE, 0, end)


@functools.cache
def _fallocate() -> Callable[[int, int, int, int], int]:
    import ctypes  # imported here, because few jobs print that much

    function = ctypes.CDLL(None).fallocate
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    return function


def _length_of_hole(fd: int, offset: int) -> int:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA) - offset
    except OSError:  # there is no data after this offset
        return max(os.fstat(fd).st_size - offset, 0)
