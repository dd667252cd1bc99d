"""Files with secrets, which only this user may read and write (mode 0600)."""

from __future__ import annotations

import os
import stat

from phalanx.errors import SystemFailureError

WHAT_HELPS = "Phalanx keeps its files below HOME: let it name a directory in which you may write."


class NotPrivateError(Exception):
    """Raised because others may have made the file, or may know its content."""

    def __init__(self, mode: int | None) -> None:
        """`mode`: the permissions of a file that is open to others; None if the file is not a
        regular file of this user.
        """
        super().__init__(mode)
        self.mode = mode


def make_directory(path: str | os.PathLike[str]) -> None:
    """Make a directory of mode 0700 and the missing ones above it, unless it exists. Raises
    SystemFailureError, which says what helps.
    """
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise SystemFailureError(
            f"The directory {os.fspath(path)} cannot be made: {error.strerror}. {WHAT_HELPS}"
        ) from None


def read_private(path: str, most_bytes: int) -> bytes:
    """Return the first bytes of a private file. Links are not followed.

    Raises NotPrivateError, FileNotFoundError, and other OSErrors.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise NotPrivateError(None)
        if found.st_mode & 0o077:
            raise NotPrivateError(found.st_mode & 0o777)
        with open(fd, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(fd)


def write_draft(path: str, data: bytes) -> str:
    """Write a new private file next to `path`, and return its path. The caller then renames it to
    `path`, or links it there.

    The bytes are on the disk when this function returns. If it raises OSError, no draft is left
    behind.
    """
    directory, name = os.path.split(os.path.abspath(path))
    draft = os.path.join(directory, f".{name}-{os.urandom(8).hex()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
    except BaseException:
        os.unlink(draft)
        raise
    return draft
