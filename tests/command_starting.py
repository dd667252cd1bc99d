"""Starts a command in the way in which a thread of a fork server does."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from phalanx.runtime.os.command_start import CommandStart
from phalanx.runtime.os.process_tree import keep_descendants
from phalanx.runtime.os.shields import Shield

PR_SET_CHILD_SUBREAPER = 36


class Started(NamedTuple):
    """A command, and its parent. Use it in a `subreaper`."""

    pid: int
    shield: Shield

    def wait(self) -> int:
        """Wait until the command has ended. Returns its exit code, or the signal that ended it as a
        negative number.
        """
        os.waitpid(self.shield.pid, 0)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextlib.contextmanager
def subreaper() -> Iterator[None]:
    """Make this process the subreaper of its descendants while the block runs, as a fork server is:
    their orphans become its children.
    """
    keep_descendants()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0)


def start_command(
    argv: Sequence[str],
    variables: Mapping[str, str],
    directory: str,
    log: str,
    entrance: int = -1,
    start: CommandStart | None = None,
    umask: int = 0o022,
    lifeline: int | None = None,
    exit_file: str = "",
) -> Started:
    """Start a command, which ends when the calling process ends, or when `lifeline` closes if that
    is given.

    `entrance`: a descriptor of which the command gets a copy. `exit_file`: the path of the exit
    file if the command is a kept one.
    """

    def copied() -> int:
        return -1 if entrance < 0 else os.dup(entrance)

    pid = ctypes.c_int(0)
    starter = start or new_start(lifeline)
    shield = starter.start(argv, variables, directory, log, copied, pid, umask, exit_file)
    return Started(pid.value, shield)


_own: list[int] = []


def new_start(lifeline: int | None = None) -> CommandStart:
    """Return a starter whose commands end with this process, or with `lifeline` if it is given."""
    return CommandStart(own_lifeline() if lifeline is None else lifeline)


def own_lifeline() -> int:
    """Return the reading end of a pipe that closes when this process ends."""
    if not _own:
        _own.extend(os.pipe())
    return _own[0]
