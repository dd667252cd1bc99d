"""What goes on of a command that has ended after it was asked to: it has the rest of the grace.

A shell ends by SIGTERM at once, while the program that it has started still writes its checkpoint.
Such processes have lost their parent and become children of the process that forks. Here they are
told from those that nobody is to wait for.
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
    """The processes that one command has started, from when it was asked to end."""

    def __init__(self, pid: int) -> None:
        """`pid`: of the command, which is not reaped before all of these have ended, so that nobody
        else gets its number."""
        self._pid = pid
        self._seen: set[int] = set()
        self.left: set[int] = set()
        """Those that have lost the command, and go on."""

    def ask(self) -> None:
        """Ask the command and all of these to end."""
        self._seen.update(descendants_of(self._pid))
        ask_to_end(self._pid, [self._pid, *self.left])

    def claim(self, orphans: Iterable[int], in_group: Iterable[int] = ()) -> set[int]:
        """Those of the orphans that are this command's; who has died of them is reaped. `in_group`:
        all processes of its control group."""
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
