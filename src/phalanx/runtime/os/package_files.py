"""Packages as files of a directory, named by their SHA-256; used by the head and by nodes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection
from typing import Any

from phalanx.model.readable import size

MOST_BYTES = 10 << 30
"""The largest number of bytes that all packages together may take."""
LEAST_FREE_BYTES = 1 << 30
_SUFFIX, _PART = ".zip", ".part"


class PackageDirectory:
    """The packages in one directory, which has mode 0700."""

    def __init__(
        self, root: str, most_bytes: int = MOST_BYTES, least_free_bytes: int = LEAST_FREE_BYTES
    ) -> None:
        self._root = root
        self._most_bytes = most_bytes
        self._least_free_bytes = least_free_bytes
        self._begun: dict[str, tuple[Any, int]] = {}
        """The running hash of each upload that this process has begun, and the number of bytes that
        have arrived.
        """

    def path(self, sha256: str) -> str:
        """Return the path of a package, which may not exist."""
        return os.path.join(self._root, sha256 + _SUFFIX)

    def has(self, sha256: str) -> bool:
        """Whether the whole package is here. If the package is here, this call counts as a use of
        the package.
        """
        with contextlib.suppress(OSError):
            os.utime(self.path(sha256))
            return True
        return False

    def length(self, sha256: str) -> int:
        """Return how many bytes of a package are here; those of an unfinished upload count."""
        with contextlib.suppress(OSError):
            return os.stat(self.path(sha256)).st_size
        return self._begun.get(sha256, (None, 0))[1]

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        """Append a part to a package. Raises OSError, and ValueError if the content is wrong."""
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        digest, length = self._begun.get(sha256, (None, 0))
        if offset != length:
            return  # a part that comes twice
        part = self.path(sha256) + _PART
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(part, flags | (0 if offset else os.O_TRUNC), 0o600)
        with open(fd, "wb") as file:
            file.write(data)
        digest = digest or hashlib.sha256()
        digest.update(data)
        self._begun[sha256] = (digest, length + len(data))
        if length + len(data) < total:
            return
        del self._begun[sha256]
        if digest.hexdigest() != sha256:
            os.unlink(part)
            raise ValueError(f"the content of package {sha256} has another SHA-256")
        os.rename(part, self.path(sha256))

    def read(self, sha256: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Return (a part of a package, the package's length); the length is -1 if there is no such
        package.
        """
        with contextlib.suppress(OSError):
            fd = os.open(self.path(sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                return os.pread(fd, limit, offset), os.fstat(fd).st_size
            finally:
                os.close(fd)
        return b"", -1

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        """Delete the packages that were used longest ago, but none of `kept`, until there is room
        for `wanted` bytes. Raises ValueError if there is not enough room.
        """
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._root):
                about = entry.stat(follow_symlinks=False)
                found.append((about.st_mtime, entry.name, about.st_size))
        total, free = sum(length for _, _, length in found), self._free()
        for _, name, length in sorted(found):
            if total + wanted <= self._most_bytes and free >= wanted + self._least_free_bytes:
                return
            sha256 = name.removesuffix(_PART).removesuffix(_SUFFIX)
            if sha256 in kept or sha256 in self._begun:
                continue
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._root, name))
                total, free = total - length, free + length
        if total + wanted > self._most_bytes or free < wanted:
            raise ValueError(
                f"there is no room for a package of {size(wanted)}: the packages of jobs that are "
                f"not over take {size(total)} of {size(self._most_bytes)}, and {size(free)} of "
                "the disk are free"
            )

    def _free(self) -> int:
        path = self._root
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        disk = os.statvfs(path)
        return disk.f_bavail * disk.f_frsize
