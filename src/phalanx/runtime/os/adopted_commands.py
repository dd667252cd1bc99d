"""Watches and ends commands that an earlier process of this node started, in place of their fork
server.

The commands are no children of this process, so it can neither wait for them nor become the parent
of the processes that they leave behind. Their shields do that. A shield writes how its command has
ended, and stays as the parent of the processes that are left. When none is left, the shield is
ended here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterable

from phalanx.protocol.fork_messages import Exited, SendSignal, SignalCommand
from phalanx.runtime.os.command_groups import CommandGroup
from phalanx.runtime.os.exit_files import Ending, is_shield_of, read_exit_file
from phalanx.runtime.os.process_tree import ask_to_end, descendants_of, is_dead, signal_command

_PASSES = 10


class _Adopted:
    """A command that was taken over."""

    def __init__(
        self, process: bytes, begun: Ending, exit_file: str, group: CommandGroup | None
    ) -> None:
        self.process = process
        self.pid = begun.pid
        self.shield = begun.shield
        self.exit_file = exit_file
        self.group = group
        self.pidfd = -1
        self.is_asked = self.is_killed = self.has_ended = False
        self.why_killed = ""

    @property
    def is_known(self) -> bool:
        """Whether the command's pids still belong to it, which is so while its shield exists."""
        return is_shield_of(self.shield, self.exit_file)

    def left(self) -> set[int]:
        """Return the living processes that the command has started and that have not ended with
        it.
        """
        below = descendants_of(self.shield) if self.is_known else []
        found = {*below, *(() if self.group is None else self.group.processes())}
        return {pid for pid in found - {self.pid, self.shield} if not is_dead(pid)}


class AdoptedCommands:
    """All commands that a node has taken over."""

    def __init__(self, ended: Callable[[Exited], None]) -> None:
        """`ended` is called with the end of each command, once none of its processes is left."""
        self._ended = ended
        self._commands: dict[bytes, _Adopted] = {}
        self._epoll = select.epoll()
        self._by_fd: dict[int, _Adopted] = {}

    @property
    def fileno(self) -> int:
        """A descriptor that is readable if `step` has something to do. In addition, `step` must be
        called at each tick.
        """
        return self._epoll.fileno()

    def __contains__(self, process: bytes) -> bool:
        """Whether a process is the process of an adopted command."""
        return process in self._commands

    def adopt(
        self, process: bytes, begun: Ending, exit_file: str, group: CommandGroup | None
    ) -> None:
        """Watch a command that has begun. If it has ended already, `step` reports that."""
        one = self._commands[process] = _Adopted(process, begun, exit_file, group)
        if one.is_known:
            with contextlib.suppress(OSError):
                one.pidfd = os.pidfd_open(one.pid)
                self._epoll.register(one.pidfd, select.EPOLLIN)
                self._by_fd[one.pidfd] = one
                return
        one.has_ended = True

    def order(self, order: SendSignal | SignalCommand) -> None:
        """Send a signal to a command, as a fork server would."""
        one = self._commands[order.process]
        if isinstance(order, SignalCommand):
            if one.is_known and not one.has_ended:
                signal_command(one.pid, order.signal, order.to)
        elif order.signal == signal.SIGKILL:
            one.is_killed = True
            self._kill(one)
        elif not one.is_killed and one.is_known:
            one.is_asked = one.is_asked or order.signal == signal.SIGTERM
            if order.signal == signal.SIGTERM:
                ask_to_end(one.pid, [one.pid, *one.left()])
            else:
                _signal_group(one.pid, order.signal)

    def step(self) -> None:
        """Find the commands that have ended, and report the ends that are complete."""
        for fd, _ in self._epoll.poll(0):
            one = self._by_fd.pop(fd, None)
            if one is not None:
                self._epoll.unregister(fd)
                os.close(fd)
                one.has_ended = True
        for one in [one for one in self._commands.values() if one.has_ended]:
            self._look(one)

    def _look(self, one: _Adopted) -> None:
        """Report the end of a command, once it is written and no process of the command is left."""
        written = read_exit_file(one.exit_file)
        code = None if written is None else written.code
        if code is None and one.is_known:
            _go_on(one.shield)  # the command may have stopped its shield
            return  # the shield is just writing it
        left = one.left()
        if left and one.is_asked and not one.is_killed:
            return  # they get what is left of the grace
        self._kill(one)
        if one.left() or (one.group is not None and not one.group.end()):
            return
        if one.is_known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.shield, signal.SIGKILL)
        del self._commands[one.process]
        cpu_s = 0.0 if written is None else written.cpu_s
        is_parent_killed = code is None and not one.is_killed
        how = -int(signal.SIGKILL) if code is None else code
        pid = one.pid
        self._ended(Exited(one.process, pid, how, one.why_killed, cpu_s, 0, is_parent_killed))

    def _kill(self, one: _Adopted) -> None:
        """Kill the command and all processes that it has started."""
        if one.group is not None:
            one.why_killed = one.group.why_killed() or one.why_killed
        if one.is_known:
            _signal_group(one.pid, signal.SIGKILL)
        for _ in range(_PASSES):
            left = one.left()
            if not left:
                break
            _signal_all(left, signal.SIGSTOP)
            _signal_all(left | one.left(), signal.SIGKILL)

    def end_everything(self) -> None:
        """End all commands, and their shields."""
        for one in self._commands.values():
            self._kill(one)
            if one.group is not None:
                one.group.end()
            if one.is_known:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.shield, signal.SIGKILL)
        self._commands.clear()


def end_command(begun: Ending, exit_file: str, group: CommandGroup | None) -> None:
    """End a command that no node will take over."""
    commands = AdoptedCommands(lambda _: None)
    commands.adopt(b"", begun, exit_file, group)
    commands.end_everything()


def _go_on(shield: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(shield, signal.SIGCONT)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
