"""Threads that start commands for a process that must not wait for them.

To start a command, a thread waits until the new process has become the command's program. That
takes a moment; if the command's directory or program is on a file server, it may take as long as
the server needs to answer. So separate threads do that. A few of them work at the same time,
because most of that moment is a wait for the kernel. If a start takes long, another thread takes
over the commands behind it.
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
from phalanx.runtime.os.shields import Shield

LONG_S = 0.1
"""Seconds after which another thread starts the commands behind a command that has not started
yet.
"""
SIDE_BY_SIDE = 4
"""The number of threads that start commands at the same time, even if no start takes long."""
MOST_THREADS = 64
_IDLE = float("inf")


class Starting:
    """A command that is being started."""

    def __init__(self, order: RunCommand, group: CommandGroup | None) -> None:
        self.order = order
        self.group = group
        """The control group of the command, as in Child."""
        self.pid = ctypes.c_int(0)
        """The id of the process that is the command or will become it, as soon as this process
        exists.
        """
        self.shield: Shield | None = None
        """The parent of that process, once the process has begun."""
        self.error: OSError | None = None
        """Why the process could not be started; None if no error has occurred."""
        self.signals: list[SendSignal | SignalCommand] = []
        """Signals that the command gets once it has begun."""


class CommandStarters:
    """Starts commands in threads, roughly in the order in which the commands come. If a start takes
    long, later commands overtake it.
    """

    def __init__(self, clock: Callable[[], float], lifeline: int) -> None:
        """`clock` returns seconds that never go backwards. `lifeline`: see CommandStart."""
        self._clock = clock
        self._lifeline = lifeline
        self.fileno = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """A descriptor that is readable if `begun` has results."""
        self._waiting: SimpleQueue[Starting] = SimpleQueue()
        self._begun: deque[Starting] = deque()
        self._starts: list[CommandStart] = []
        """The CommandStart of each thread."""
        self._since: list[float] = []
        """For each thread: the time when it began to start its command; infinite if it has none."""

    @property
    def is_behind(self) -> bool:
        """Whether commands wait for a thread, so that `look` must be called soon."""
        return not self._waiting.empty()

    def start(self, starting: Starting) -> None:
        """Start a command."""
        self._waiting.put(starting)
        self.look()

    def look(self) -> None:
        """Start another thread if waiting commands would otherwise wait long."""
        late = self._clock() - LONG_S
        idle = self._since.count(_IDLE)
        is_short = len(self._since) < SIDE_BY_SIDE and self._waiting.qsize() > idle
        is_stuck = len(self._since) < MOST_THREADS and all(since < late for since in self._since)
        if is_short or is_stuck:
            self._since.append(_IDLE)
            self._starts.append(CommandStart(self._lifeline))
            me = len(self._since) - 1
            try:
                threading.Thread(target=self._work, args=(me,), daemon=True).start()
            except RuntimeError:  # no more threads can be started now
                del self._since[me], self._starts[me]

    def close_in_child(self) -> None:
        """Close the threads' descriptors in a fork of this process, which has no such threads."""
        for fd in {fd for start in self._starts for fd in start.opened if fd >= 0}:
            # This descriptor is closed, but has not been removed from the set yet.
            with contextlib.suppress(OSError):
                os.close(fd)

    def shields(self) -> set[int]:
        """Return the shields of commands that are being started."""
        return {start.shield.value for start in self._starts}

    def begun(self) -> list[Starting]:
        """Return the commands that have begun, or cannot begin, since the last call."""
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
                starting.shield = start(
                    order.argv,
                    order.variables,
                    order.directory,
                    order.log,
                    entrance,
                    starting.pid,
                    mask_of_work(order.umask),
                    order.exit_file,
                )
            except OSError as error:
                starting.error = error
            except Exception as error:
                # This is a fault in Phalanx. The node learns of it, and the next command can begin.
                starting.error = OSError(errno.EIO, f"{type(error).__name__}: {error}")
            self._since[me] = _IDLE
            self._begun.append(starting)
            os.eventfd_write(self.fileno, 1)


def _no_group() -> int:
    return -1
