"""Keeps, in the node's process, the workers and commands that have outlived their fork server.

When the fork server is killed, their shields become children of the node, which is a subreaper. So
the node does the fork server's work for them: it reads their output, signals them, records how they
end, and ends the processes that they leave behind. The next fork server starts new workers and
commands.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.child import Child
from phalanx.runtime.os.fork_records import Begun
from phalanx.runtime.os.process_tree import own_children
from phalanx.runtime.os.shields import Shield
from phalanx.runtime.worker.fork_server import WorkerForkServer


class SurvivorKeeper(WorkerForkServer):
    """A fork server in the node's process. It starts nothing, and never waits for events."""

    def __init__(
        self,
        sock: socket.socket,
        session: sessions.Session,
        lifeline: int,
        helpers: Callable[[], set[int]],
    ) -> None:
        """`sock` is a socket whose other end the node has. `helpers` returns the pids of the node's
        own helpers.
        """
        super().__init__(sock, session, lifeline, os.getpid())
        self._helpers = helpers

    @property
    def fileno(self) -> int:
        """A descriptor that is readable if `step` has something to do."""
        return self._epoll.fileno()

    def step(self) -> None:
        """Handle the events that have arrived."""
        self.round(0)

    def others(self) -> set[int]:
        """Return the node's own helpers, because no work has left them behind."""
        return self._helpers() | self._removal.pids

    def keep(self, begun: Begun) -> bool:
        """Keep a process that has begun. Returns False if the process does not exist any more; how
        it ended is then unknown.
        """
        mine = own_children()
        if begun.shield not in mine and begun.pid not in mine:
            return False
        shield = Shield(begun.shield) if begun.shield in mine else None
        child = Child(
            begun.process,
            begun.pid,
            is_command=begun.is_command,
            group=self._groups.find(begun.process, begun.memory_bytes),
            socket=begun.socket,
            shield=shield,
            exit_file=begun.exit_file,
        )
        for number in () if shield is None else begun.output:
            self._read_again(child, begun.shield, number)
        try:
            self.adopt(child)
        except OSError:  # the process was reaped, or no descriptor for it could be opened
            del self._children[child.process]
            return False
        return True

    def end_what_nobody_knows(self) -> None:
        """End processes that the fork server had started without reporting them to the node."""
        self._ends_orphans = True
        self._end_orphans()

    def _read_again(self, child: Child, shield: int, number: int) -> None:
        """Read a worker's output again, from the end of the pipe that the worker's shield has kept
        open.
        """
        path = f"/proc/{shield}/fd/{number}"
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return
        self.read_output_of(child.pid, fd, is_error=bool(self.pipes_of(child.pid)))
