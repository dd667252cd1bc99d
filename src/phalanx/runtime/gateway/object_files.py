"""The files of objects as the gateway opens them. No name can lead out of the directories."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
from typing import NamedTuple

from phalanx.objects.names import spare_file
from phalanx.runtime.os.session import Session

_NAME = re.compile(r"[0-9a-f]{32}-[0-9]{1,20}")
NAME_BYTES = 53
_PART = ".part"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_object_name(name: str) -> bool:
    """Whether a name is the id of a writer's process in hex, a dash and the writer's count, and
    nothing else.
    """
    return _NAME.fullmatch(name) is not None


class Begun(NamedTuple):
    """A file that is being filled. The object will be the first `size` bytes of the mapping."""

    fd: int
    mapping: mmap.mmap
    size: int

    def close(self) -> None:
        """Release the file's memory; the file stays."""
        self.mapping.close()
        os.close(self.fd)


class ObjectFiles:
    """The session's two directories of objects, held open."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shared = os.open(session.shared, _DIRECTORY)
        self._spill = os.open(session.spill, _DIRECTORY)
        for leftover in os.listdir(self._shared):
            if leftover.endswith(_PART):  # this file was left by a gateway that was killed
                self.discard(leftover.removesuffix(_PART))

    def open_again(self) -> None:
        """If a directory was removed and made again, open the new one. The descriptor keeps its
        number.
        """
        places = ((self._shared, self._session.shared), (self._spill, self._session.spill))
        for held, path in places:
            if not os.fstat(held).st_nlink:
                with contextlib.suppress(OSError):
                    again = os.open(path, _DIRECTORY)
                    os.dup2(again, held, inheritable=False)
                    os.close(again)

    def _place(self, on_disk: bool) -> int:
        return self._spill if on_disk else self._shared

    def open(self, name: str) -> int:
        """Return a descriptor of an object's file. Raises FileNotFoundError."""
        assert is_object_name(name)
        # The node may move the file to disk between these two checks.
        for directory in (self._shared, self._spill):
            with contextlib.suppress(FileNotFoundError):
                return os.open(name, _READ, dir_fd=directory)
        return os.open(name, _READ, dir_fd=self._shared)

    def has(self, name: str) -> bool:
        """Whether the whole object is on this node."""
        try:
            os.close(self.open(name))
        except FileNotFoundError:
            return False
        return True

    def begin(self, name: str, size: int, on_disk: bool = False) -> Begun | None:
        """Make and map a file of `size` bytes that is not an object yet. Returns None for size 0.

        When this returns, the memory is reserved. Raises OSError (ENOSPC) if there is not enough.
        """
        assert is_object_name(name)
        place = self._place(on_disk)
        free = os.statvfs(place)
        if size > free.f_bavail * free.f_frsize:
            # This is checked before the attempt, which would take all free memory before it fails.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fd = os.open(name + _PART, _CREATE, 0o600, dir_fd=place)
        try:
            if not size:
                os.close(fd)
                return None
            os.posix_fallocate(fd, 0, size)
            return Begun(fd, mmap.mmap(fd, size), size)
        except OSError:
            os.close(fd)
            self.discard(name, on_disk)
            raise

    def begin_over(self, spare: str, name: str) -> None:
        """Use the file of a deleted object for a new object, which is not complete yet."""
        source, target = spare_file(spare), name + _PART
        os.rename(source, target, src_dir_fd=self._shared, dst_dir_fd=self._shared)

    def discard_spare(self, spare: str) -> None:
        """Delete the file of a deleted object, which will not be reused."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(spare_file(spare), dir_fd=self._shared)

    def seal(self, name: str, on_disk: bool = False) -> None:
        """Turn a file that was begun into an object."""
        place = self._place(on_disk)
        os.rename(name + _PART, name, src_dir_fd=place, dst_dir_fd=place)

    def discard(self, name: str, on_disk: bool = False) -> None:
        """Delete a file that was begun."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name + _PART, dir_fd=self._place(on_disk))
