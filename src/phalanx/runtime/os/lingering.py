"""The processes that outlive a command which was asked to end. They may use the rest of the
command's grace period.

SIGTERM ends a shell immediately, while the program that the shell has started still writes its
checkpoint. Such programs have lost their parent, and have become children of the fork server. This
module separates them from processes without a grace period.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from phalanx.runtime.os.process_tree import (
    ask_to_end,
    descendants_of,
    group_of,
    session_of,
)


class Lingering:
    """The processes that a command has started, followed from the time when the command is asked to
    end.
    """

    def __init__(self, pid: int) -> None:
        """Begin to follow a command.

        The command must not be reaped before all of its processes have ended, so that no other
        process gets its pid.
        """
        self._pid = pid
        self._seen: set[int] = set()
        self.left: set[int] = set()
        """The processes that have outlived the command."""

    def ask(self) -> None:
        """Ask the command and all of its processes to end."""
        self._seen.update(descendants_of(self._pid))
        ask_to_end(self._pid, [self._pid, *self.left])

    def claim(self, orphans: Iterable[int], in_group: Iterable[int] = ()) -> set[int]:
        """Return the orphans that this command has left. Dead orphans are reaped.

        `in_group`: all processes of the command's control group.
        """
        self._seen.update(in_group)
        mine = {pid for pid in orphans if self._is_mine(pid)}
        for pid in mine:
            self._seen.update(descendants_of(pid))
        self.left = {pid for pid in mine if not _is_reaped(pid)}
        return self.left

    def _is_mine(self, pid: int) -> bool:
        return pid in self._seen or self._pid in (group_of(pid), session_of(pid))


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
