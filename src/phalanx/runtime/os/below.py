"""Files below a directory, with names that users influence. Links in the directory are never
followed.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os


@functools.lru_cache(maxsize=1024)
def directory_name(text: str) -> str:
    """Return a file name for a user's text, such as a job's name. Different texts get different
    names.
    """
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]


def open_below(root: str, path: str, flags: int) -> int:
    """Open a file by its path below `root`. No link on the way is followed.

    With O_CREAT the file gets mode 0600, and missing directories are made with mode 0700. Raises
    OSError, with EINVAL for a path that leads out of `root`, and with ELOOP or ENOTDIR for a link.
    """
    *directories, name = _components(path)
    at = _open_directory(root, directories, is_made=bool(flags & os.O_CREAT))
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
    finally:
        os.close(at)


def make_below(root: str, path: str) -> None:
    """Make a directory below `root` with mode 0700, and its missing parents, without following
    links. The directory may exist.
    """
    os.close(_open_directory(root, _components(path), is_made=True))


def _components(path: str) -> list[str]:
    found = path.split(os.sep)
    if any(part in ("", os.curdir, os.pardir) or "\0" in part for part in found):
        raise OSError(errno.EINVAL, "the path does not stay below its directory", path)
    return found


def _open_directory(root: str, names: list[str], is_made: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        at = os.open(root, flags)
    except FileNotFoundError:
        if not is_made:
            raise
        os.makedirs(root, mode=0o700, exist_ok=True)
        at = os.open(root, flags)
    for name in names:
        try:
            if is_made:
                _make(name, at)
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def _make(name: str, at: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        return
