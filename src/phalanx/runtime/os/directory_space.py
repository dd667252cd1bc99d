"""Reads the state of a node's directories (see `node/directories.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from phalanx.node.directories import DirectorySample

_PROBE = ".phalanx-probe"
_PROBE_BYTES = 4096


class Watched(NamedTuple):
    """A directory and its purpose."""

    what: str
    path: str
    own: Callable[[], float] = lambda: 0.0
    """Returns the value of `DirectorySample.own`."""
    has_logs: bool = False


class DirectorySpace:
    """Samples the directories of one node."""

    def __init__(self, watched: Sequence[Watched]) -> None:
        self._watched = watched

    def look(self, writes: bool) -> list[DirectorySample]:
        """Return a sample of each directory. With `writes`, first try to write a file in each."""
        return [_sample(one, writes) for one in self._watched]


def _sample(one: Watched, writes: bool) -> DirectorySample:
    try:
        if not os.access(one.path, os.W_OK | os.X_OK):
            # the error of this directory tells the reason
            with open(os.path.join(one.path, _PROBE), "wb"):
                pass
        if writes:
            _probe(one.path)
        found = os.statvfs(one.path)
    except OSError as error:
        return DirectorySample(
            what=one.what,
            path=one.path,
            error=error.strerror or str(error),
            has_logs=one.has_logs,
        )
    return DirectorySample(
        what=one.what,
        path=one.path,
        free=found.f_bavail * found.f_frsize,
        total=found.f_blocks * found.f_frsize,
        own=int(one.own()),
        has_logs=one.has_logs,
        is_out_of_files=found.f_files > 0 and found.f_favail == 0,
    )


def _probe(directory: str) -> None:
    """Try to write a file. Raises OSError if that fails, for example because a quota is used up.
    Nothing else would show that.
    """
    path = os.path.join(directory, _PROBE)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        left = _PROBE_BYTES
        while left:
            left -= os.write(fd, b"\0" * left)
    finally:
        os.close(fd)
        os.unlink(path)
