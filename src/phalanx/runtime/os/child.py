"""A process that a fork server has started, and signals to it."""

from __future__ import annotations

import contextlib
import os

from phalanx.runtime.os.command_groups import CommandGroup
from phalanx.runtime.os.exit_files import read_exit_file
from phalanx.runtime.os.lingering import Lingering
from phalanx.runtime.os.shields import Shield


class Child:
    """A process that the fork server has forked."""

    def __init__(
        self,
        process: bytes,
        pid: int,
        is_command: bool,
        group: CommandGroup | None = None,
        socket: str = "",
        shield: Shield | None = None,
        exit_file: str = "",
    ) -> None:
        self.process = process
        self.pid = pid
        self.shield = shield
        self.group = group
        """The control group of the process and of everything that it starts; None if it has no
        group.
        """
        self.socket = socket
        """The path of the socket at which other processes connect to the process's streams; "" if
        its streams are not offered.
        """
        self.exit_file = exit_file
        """The exit file of a kept command, whose shield outlives it (see `shields`); "" for a
        command that is not kept.
        """
        self.is_command = is_command
        """Whether the process runs a user's program, whose children all end with the program."""
        self.lingering: Lingering | None = None
        """The processes that the child has started, which may end later than the child. They are
        tracked once the child is asked to end.
        """
        self.began_at = 0.0
        """The time, on a steady clock, when this process learned that a command has begun."""
        self.why_killed = ""
        """Why the kernel has killed processes of the child."""
        self.has_ended = False
        self.is_parent_killed = False
        """Whether the child has ended because its shield was killed."""
        self.is_killed = False
        """Whether the child was sent SIGKILL. The processes that it has started then have no grace
        period any more.
        """


def is_end_written(child: Child) -> bool:
    """Whether the shield of this kept command has written how the command ended. Also True if there
    is no exit file.
    """
    written = read_exit_file(child.exit_file)
    return written is None or written.code is not None


def send_signal(child: Child, number: int) -> None:
    """Send a signal to a command's whole process group, or to one worker. Programs that run as
    another account (setuid) do not get it.
    """
    if child.is_command:
        try:
            os.killpg(child.pid, number)
            return
        except PermissionError:
            return
        except ProcessLookupError:
            pass  # the child has not made its group yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(child.pid, number)
