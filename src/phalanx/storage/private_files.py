"""Private files: they are locked, and only this user may read them or enter their directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable

from phalanx.storage.errors import StorageError, StorageInUseError

_LONGEST_PID = 20


def prepare_file(path: str, *, beside: tuple[str, ...]) -> str:
    """Return the absolute path of a file of mode 0600 in a directory of mode 0700.

    A missing file or directory is created. `beside`: the endings of the names of further files that
    belong to the file; these may exist or not. Links are refused. Raises StorageError if one of
    these files or the directory is not private, or cannot be created.
    """
    directory, name = os.path.split(os.path.abspath(path))
    try:
        if not os.path.lexists(directory):
            os.makedirs(directory, mode=0o700)
        _demand_private(directory, stat.S_ISDIR, "directory", 0o700)
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
            sync_directory(directory)
        for ending in ("", *beside):
            if os.path.lexists(path + ending):
                _demand_private(path + ending, stat.S_ISREG, "file", 0o600)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be opened: {error.strerror or error}. Name a file in a directory "
            "that this user may write."
        ) from error
    return path


def _demand_private(path: str, is_kind: Callable[[int], bool], kind: str, mode: int) -> None:
    found = os.lstat(path)
    if not is_kind(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "something else"
        raise StorageError(f"{path} must be a {kind}, and it is {what}. Name a {kind} itself.")
    if found.st_uid != os.getuid():
        raise StorageError(
            f"{path} belongs to user {found.st_uid}, and this is user {os.getuid()}: "
            f"name a {kind} of your own."
        )
    if found.st_mode & 0o777 & ~mode:
        raise StorageError(
            f"{path} has mode {found.st_mode & 0o777:o}, so others could read the cluster's state: "
            f"`chmod {mode:o} {path}`, or name another place."
        )


def sync_directory(directory: str) -> None:
    """Write a directory's names to the disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class FileLock:
    """An exclusive lock on a file, held until `close` or the end of the process."""

    def __init__(self, path: str, *, guards: str) -> None:
        """Take the lock. Raises StorageInUseError when another process holds it. `guards` is the
        file that the lock protects.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, _LONGEST_PID, 0).decode("ascii", "replace").strip()
            self.close()
            raise StorageInUseError(
                f"{guards} is open in process {holder or 'unknown'}: two heads cannot share a "
                "store. Stop that one first, or name another file."
            ) from None
        holder = f"{os.getpid()}\n"
        # the disk may be full, and the number is only for display
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, holder.encode(), 0)
            os.ftruncate(self._fd, len(holder))
        _held.add(self)

    @property
    def fd(self) -> int:
        """The descriptor of the locked file; -1 once the lock is released."""
        return self._fd

    def close(self) -> None:
        """Release the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self)


_held: set[FileLock] = set()


def _forget_in_child() -> None:
    # A forked child has the lock, too. A child that outlives the head would keep the next head from
    # starting.
    for lock in list(_held):
        lock.close()


os.register_at_fork(after_in_child=_forget_in_child)
