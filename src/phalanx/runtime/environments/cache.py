"""The cache of environments of one account on one machine.

Each environment has a directory, whose name is its key. One process at a time prepares it, and the
others wait. The file READY is made last. When the cache is too large or the disk too full, the
environments that were used longest ago are removed. Environments that are in use, or were used a
short time ago, are never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from phalanx.model.environments import READY, USED
from phalanx.model.readable import size

MOST_BYTES = 50 << 30
"""The largest number of bytes that all environments of an account may take on a machine."""
LEAST_FREE_BYTES = 2 << 30
"""The number of bytes that the cache tries to leave free in its file system."""
GRACE_S = 600.0
"""Seconds after its last use for which an environment is never removed. A gang that has prepared an
environment on one node begins to use it only when all its nodes have prepared it.
"""
_SIZE = "size"
_STAT_BLOCK = 512


class Entry(NamedTuple):
    """An environment in the cache."""

    key: str
    bytes: int
    used: float
    """The time of its last use, in seconds since the epoch."""


def chosen(entries: list[Entry], now: float, *, most_bytes: int, missing_bytes: int) -> list[Entry]:
    """Return the environments to remove, those that were used longest ago first.

    Enough are chosen that the others take at most `most_bytes` and that at least `missing_bytes`
    become free, if environments that were not used for GRACE_S suffice for that.
    """
    total, freed, found = sum(one.bytes for one in entries), 0, []
    for entry in sorted(entries, key=lambda one: (one.used, one.key)):
        if total - freed <= most_bytes and freed >= missing_bytes:
            break
        if now - entry.used >= GRACE_S:
            found.append(entry)
            freed += entry.bytes
    return found


class Cache:
    """The environments below the directory `root`."""

    def __init__(
        self,
        root: str,
        *,
        say: Callable[[str], None],
        most_bytes: int = MOST_BYTES,
        least_free_bytes: int = LEAST_FREE_BYTES,
    ) -> None:
        self._root = root
        self._say = say
        self._most_bytes = most_bytes
        self._least_free_bytes = least_free_bytes

    def place(self, key: str) -> str:
        """Return the directory of an environment, which may not exist."""
        return os.path.join(self._root, key)

    def has(self, key: str) -> bool:
        """Whether an environment is ready. If the environment is ready, this call counts as a use
        of the environment.
        """
        place = self.place(key)
        if not os.path.exists(os.path.join(place, READY)):
            return False
        with open(os.path.join(place, USED), "wb"):
            return True

    def prepare(self, key: str, build: Callable[[str], None]) -> str:
        """Return the directory of an environment, which is built if it is not ready.

        An error of `build` is raised, and nothing is left behind. Raises OSError.
        """
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        with self._alone(f".{key}.lock"):
            place = self.place(key)
            if self.has(key):
                return place
            self.make_room()
            shutil.rmtree(place, ignore_errors=True)  # a preparation was interrupted
            os.mkdir(place, 0o700)
            try:
                build(place)
                with open(os.path.join(place, _SIZE), "w", encoding="ascii") as file:
                    file.write(str(size_of(place)))
                for name in (USED, READY):
                    with open(os.path.join(place, name), "xb"):
                        pass
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
            return place

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Hold the lock of this name until the block ends. Other processes wait for it."""
        fd = os.open(os.path.join(self._root, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("another process prepares this environment already; waiting for it")
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # ---- room --------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return the environments that are ready."""
        found = []
        for key in os.listdir(self._root):
            with contextlib.suppress(OSError, ValueError):  # it is not ready, or just removed
                used = os.stat(os.path.join(self._root, key, USED)).st_mtime
                with open(os.path.join(self._root, key, _SIZE), encoding="ascii") as file:
                    found.append(Entry(key, int(file.read()), used))
        return found

    def make_room(self) -> None:
        """Remove unused environments, as far as possible until the cache is within its limits."""
        disk = os.statvfs(self._root)
        missing = self._least_free_bytes - disk.f_bavail * disk.f_frsize
        found = chosen(
            self.entries(), time.time(), most_bytes=self._most_bytes, missing_bytes=missing
        )
        for entry in found:
            if self._remove(entry.key):
                self._say(f"environment {entry.key} was removed: {size(entry.bytes)}")

    def _remove(self, key: str) -> bool:
        """Remove an environment, unless a process uses it. Returns whether it was removed."""
        place = self.place(key)
        ready = os.path.join(place, READY)
        with contextlib.suppress(OSError):
            fd = os.open(ready, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(ready)
            finally:
                os.close(fd)
            shutil.rmtree(place, ignore_errors=True)
            return True
        return False


def size_of(place: str) -> int:
    """Return the bytes that the files below a directory take on their disk."""
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * _STAT_BLOCK
    return total
