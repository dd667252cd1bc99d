"""Threads that start commands for a process that must not wait for them.

Whoever starts a command waits until that is another program: a moment, or for as long as a file
server takes to answer where its directory or its program lies there. So a thread does it, and one
more takes what is behind a command that takes long. Commands end with the thread that started them
(prctl(2), PR_SET_PDEATHSIG), so these threads stay.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from phalanx.protocol.fork_messages import RunCommand, SendSignal, SignalCommand
from phalanx.runtime.os.command_groups import CommandGroup
from phalanx.runtime.os.command_start import CommandStart
from phalanx.runtime.os.file_modes import mask_of_work

LONG_S = 0.1
"""A command that takes longer to start has those behind it started by another thread."""
MOST_THREADS = 64
_IDLE = float("inf")


class Starting:
    """A command that is being started."""

    def __init__(self, order: RunCommand, group: CommandGroup | None) -> None:
        self.order = order
        self.group = group
        """See Child."""
        self.pid = ctypes.c_int(0)
        """Of who is it or tries to be it, as soon as there is one."""
        self.error: OSError | None = None
        """Why there is none."""
        self.signals: list[SendSignal | SignalCommand] = []
        """What it is to be sent once it has begun."""


class CommandStarters:
    """Starts commands in the order in which they come, as long as none takes long."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: in seconds, one that never goes back."""
        self._clock = clock
        self.fileno = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable when `begun` has some to tell."""
        self._waiting: SimpleQueue[Starting] = SimpleQueue()
        self._begun: deque[Starting] = deque()
        self._starts: list[CommandStart] = []
        """Of each thread."""
        self._since: list[float] = []
        """Of each thread, since when it is at a command; never: at none."""

    @property
    def is_behind(self) -> bool:
        """Whether some wait for a thread: `look` is to be called soon."""
        return not self._waiting.empty()

    def start(self, starting: Starting) -> None:
        """Start a command."""
        self._waiting.put(starting)
        self.look()

    def look(self) -> None:
        """See to it that what waits does not wait long."""
        late = self._clock() - LONG_S
        if len(self._since) < MOST_THREADS and all(since < late for since in self._since):
            self._since.append(_IDLE)
            self._starts.append(CommandStart())
            me = len(self._since) - 1
            try:
                threading.Thread(target=self._work, args=(me,), daemon=True).start()
            except RuntimeError:  # there can be no more threads now
                del self._since[me], self._starts[me]

    def close_in_child(self) -> None:
        """In a fork of this process: let go of all that the threads use, which are not there."""
        for fd in {fd for start in self._starts for fd in start.opened if fd >= 0}:
            with contextlib.suppress(OSError):  # closed, and not yet taken out
                os.close(fd)

    def begun(self) -> list[Starting]:
        """Those that have begun, or cannot, since the last call."""
        os.eventfd_read(self.fileno)
        return [self._begun.popleft() for _ in range(len(self._begun))]

    def _work(self, me: int) -> None:
        start = self._starts[me].start
        while True:
            starting = self._waiting.get()
            self._since[me] = self._clock()
            order, group = starting.order, starting.group
            entrance = _no_group if group is None else group.entrance
            try:
                start(
                    order.argv,
                    order.variables,
                    order.directory,
                    order.log,
                    entrance,
                    starting.pid,
                    mask_of_work(order.umask),
                )
            except OSError as error:
                starting.error = error
            except Exception as error:  # a defect: its node is told, and the next one can begin
                starting.error = OSError(errno.EIO, f"{type(error).__name__}: {error}")
            self._since[me] = _IDLE
            self._begun.append(starting)
            os.eventfd_write(self.fileno, 1)


def _no_group() -> int:
    return -1
