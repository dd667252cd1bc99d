"""Carries the input and output of one program on a node: a terminal, or three pipes.

The user's side connects to a Unix socket that is named by the program's id; from another node, it
connects through the gates. There is one such connection. The program starts when the connection is
made, and the connection ends when the program ends. If the connection is lost, the program gets
SIGTERM (and SIGHUP, at a terminal), and SIGKILL after the grace period of its job. A program that
was asked to end counts as ended once all processes that it has started have ended. All its output
goes to the log, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Sequence
from typing import NoReturn

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.model.exit_codes import NOT_STARTED
from phalanx.protocol.fork_messages import RunCommand
from phalanx.protocol.stream_messages import (
    Begin,
    Ended,
    Printed,
    Resized,
    Signalled,
    Typed,
    decode_body,
)
from phalanx.runtime.os.below import open_below
from phalanx.runtime.os.commands import exec_command, exit_of
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.dialled_port import become_dialled_port
from phalanx.runtime.os.file_modes import mask_of_work
from phalanx.runtime.os.peer_user import same_user
from phalanx.runtime.os.polling import wait_for
from phalanx.runtime.os.process_tree import ask_to_end, end_with_parent, own_children

PATIENCE_S = 60.0
"""Seconds for which a program waits for a connection."""
_CHUNK = 1 << 15
_UNREAD = 1 << 18
"""The largest number of bytes that wait for a program that does not read, or for a slow
connection.
"""
_END_OF_INPUT = b"\x04"
_SIZE = struct.Struct("4H")
_LARGEST_SIZE = 0xFFFF
_LAST_BYTES_S = 2.0


def stand_for(order: RunCommand, listening: socket.socket, path: str) -> NoReturn:
    """Run a command in a child of this process, with its streams over the socket. This function
    never returns.
    """
    code = NOT_STARTED
    try:
        os.setsid()
        code, number = _Stand(order, listening, path).run()
        _end_by(number)
    except OSError as error:
        _note(order.log, f"phalanx: {order.argv[0]} could not be started: {error.strerror}\n")
    finally:
        os._exit(code)


def _end_by(number: int) -> None:
    """End this process by the signal that ended the program. It leaves no core file, because the
    program itself has left one.
    """
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _note(log: str, text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(_open_log(log), os.fsencode(text))


def _open_log(log: str) -> int:
    return open_below(*os.path.split(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class _Stand:
    """A program and its connection."""

    def __init__(self, order: RunCommand, listening: socket.socket, path: str) -> None:
        assert order.streams is not None
        self._order = order
        self._is_terminal = order.streams.is_terminal
        self._listening = listening
        self._path = path
        self._log = _open_log(order.log)
        self._connection: Connection | None = None
        self._pid = 0
        self._input = -1
        self._outputs: dict[int, bool] = {}
        """The descriptors of the program's output, each with whether it is standard error."""
        self._unread = bytearray()
        self._is_input_over = False
        self._is_asked_to_end = False
        self._kill_at = float("inf")
        self._wakeup, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def run(self) -> tuple[int, int]:
        """Run the program until it has ended. Returns its exit code in the form of shells, and its
        signal or 0. If nobody connects in time, the program is not started, and the code is
        NOT_STARTED.
        """
        begin = self._wait_for_somebody()
        if begin is None:
            return NOT_STARTED, 0
        self._start(begin)
        self._close_input()  # the end of the input may have come together with its beginning
        pidfd = os.pidfd_open(self._pid)
        while pidfd not in self._round(pidfd):
            pass
        while self._is_asked_to_end and self._has_more():
            self._round(self._wakeup)
        _, status = os.waitpid(self._pid, 0)
        code, _, number = exit_of(os.waitstatus_to_exitcode(status))
        self._say_goodbye(code)
        return code, number

    # ---- beginning ---------------------------------------------------------------------------

    def _wait_for_somebody(self) -> Begin | None:
        deadline = time.monotonic() + PATIENCE_S
        poll = select.poll()
        poll.register(self._listening, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        try:
            while (left_s := deadline - time.monotonic()) > 0:
                ready = [fd for fd, _ in poll.poll(left_s * 1000)]
                if self._wakeup in ready and signal.SIGTERM in os.read(self._wakeup, _CHUNK):
                    return None
                if self._listening.fileno() in ready:
                    begin = self._accept(deadline)
                    if begin is not None:
                        return begin
            _note(self._order.log, f"phalanx: nobody connected within {PATIENCE_S:g} s\n")
            return None
        finally:
            self._listening.close()
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _accept(self, deadline: float) -> Begin | None:
        try:
            sock, _ = self._listening.accept()
        except BlockingIOError:
            return None
        connection = Connection(sock, is_stranger=True, decode=decode_body)
        with contextlib.suppress(AuthenticationError, ProtocolError):
            same_user(sock)
            while wait_for(connection.fileno, select.POLLIN, max(deadline - time.monotonic(), 0)):
                messages = connection.receive()
                if messages is None:
                    break
                if messages and isinstance(messages[0], Begin):
                    self._connection = connection
                    for message in messages[1:]:
                        self._on_message(message)
                    return messages[0]
        connection.close()
        return None

    def _start(self, begin: Begin) -> None:
        order = self._order
        if begin.terminal and self._is_terminal:
            order.variables["TERM"] = begin.terminal
        if self._is_terminal:
            primary, secondary = os.openpty()
            os.set_blocking(primary, False)
            _set_size(primary, begin.rows, begin.columns)
            self._input, self._outputs = primary, {primary: False}
            self._pid = self._fork((secondary, secondary, secondary))
            os.close(secondary)
            return
        (his_in, self._input), (out, his_out), (err, his_err) = (os.pipe() for _ in range(3))
        self._outputs = {out: False, err: True}
        for fd in (self._input, out, err):
            os.set_blocking(fd, False)
        self._pid = self._fork((his_in, his_out, his_err))
        for fd in (his_in, his_out, his_err):
            os.close(fd)

    def _fork(self, streams: Sequence[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT)
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)
            end_with_parent(parent)
            os.setsid()
            if self._is_terminal:
                fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
            for fd, stream in enumerate(streams):
                os.dup2(stream, fd)
            assert self._order.streams is not None
            if self._order.streams.port:
                os._exit(become_dialled_port(self._order.streams.port))
            os.umask(mask_of_work(self._order.umask))
            exec_command(self._order.argv, self._order.variables, self._order.directory)
        finally:
            os._exit(NOT_STARTED)

    # ---- between the two ---------------------------------------------------------------------

    def _has_more(self) -> bool:
        """Whether a process that the program has started still runs. (A signal arrives whenever
        such a process ends.)
        """
        below = [pid for pid in own_children() if pid != self._pid]
        reaped = {os.waitpid(pid, os.WNOHANG)[0] for pid in below}
        return not reaped.issuperset(below)

    def _round(self, watched: int) -> dict[int, int]:
        """Pass on everything that has arrived. Returns the descriptors that were ready, with their
        events. `watched`: one more descriptor to wait for.
        """
        connection = self._connection
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        if connection is not None:
            reads = select.POLLIN if len(self._unread) < _UNREAD else 0
            writes = select.POLLOUT if connection.has_backlog else 0
            poll.register(connection.fileno, reads | writes)
        if connection is None or not connection.has_backlog:
            for fd in self._outputs:
                poll.register(fd, select.POLLIN)
        if self._unread and self._input >= 0:
            also = select.POLLIN if self._input in self._outputs else 0
            poll.register(self._input, select.POLLOUT | also)
        left_s = self._kill_at - time.monotonic()
        ready = dict(poll.poll(None if left_s == float("inf") else max(left_s, 0) * 1000))
        if time.monotonic() >= self._kill_at:
            self._kill_at = float("inf")
            self._is_asked_to_end = False  # the remaining processes end with this one
            self._signal(signal.SIGKILL)
        if self._wakeup in ready and signal.SIGTERM in os.read(self._wakeup, _CHUNK):
            self._ask_to_end()
        if connection is not None and connection.fileno in ready:
            self._from_connection(connection, ready[connection.fileno])
        for fd in [fd for fd in self._outputs if fd in ready]:
            self._pass_output(fd)
        if self._unread:
            self._pass_input()
        if self._connection is not None:
            self._connection.flush()
        return ready

    def _from_connection(self, connection: Connection, mask: int) -> None:
        if mask & select.POLLOUT:
            connection.drain()
        if not mask & ~select.POLLOUT:
            return
        try:
            messages = connection.receive()
        except ProtocolError:
            messages = None
        if messages is None:
            connection.close()
            self._connection = None
            if not self._is_terminal:
                self._is_input_over = True
                self._close_input()
            self._ask_to_end()
            self._kill_at = time.monotonic() + self._order.grace_s
            return
        for message in messages:
            self._on_message(message)

    def _on_message(self, message: object) -> None:
        match message:
            case Typed():
                if message.data:
                    self._unread += message.data
                elif self._is_terminal:
                    self._unread += _END_OF_INPUT
                else:
                    self._is_input_over = True
                    self._close_input()
            case Resized():
                if self._is_terminal and self._input >= 0:
                    _set_size(self._input, message.rows, message.columns)
            case Signalled(number=signal.SIGTERM):
                self._ask_to_end()
                self._kill_at = time.monotonic() + self._order.grace_s
            case Signalled():
                self._signal(message.number)

    def _close_input(self) -> None:
        """Close the program's input once the user's side has ended it and everything that arrived
        was written.
        """
        if self._is_input_over and not self._unread and self._input >= 0:
            os.close(self._input)
            self._input = -1

    def _pass_input(self) -> None:
        if self._input < 0:
            return  # the program has not begun
        try:
            sent = os.write(self._input, self._unread[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # the program has stopped reading
            sent = len(self._unread)
        del self._unread[:sent]
        self._close_input()

    def _pass_output(self, fd: int) -> bool:
        """Pass on output of the program. Returns whether more may follow."""
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if not data:
            del self._outputs[fd]
            if fd != self._input:
                os.close(fd)
            return False
        with contextlib.suppress(OSError):
            os.write(self._log, data)
        if self._connection is not None:
            self._connection.post(Printed(data, self._outputs[fd]))
        return True

    # ---- ending ------------------------------------------------------------------------------

    def _ask_to_end(self) -> None:
        """Ask the program to end, unless it was asked before: it may be writing its last state, and
        a second signal would disturb that.
        """
        if self._is_asked_to_end:
            return
        self._is_asked_to_end = True
        ask_to_end(self._pid, own_children())
        if self._is_terminal:
            self._signal(signal.SIGHUP)  # a shell at a terminal ignores SIGTERM
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Send a signal to the program's process group and to the foreground group of its
        terminal.
        """
        groups = {self._pid}
        if self._is_terminal:
            with contextlib.suppress(OSError):
                groups.add(os.tcgetpgrp(self._input))
        for group in groups:
            with contextlib.suppress(OSError, ValueError):
                os.killpg(group, number) if group > 0 else None

    def _say_goodbye(self, code: int) -> None:
        """Send the program's last output, and how the program ended.

        If processes that it has started still run, what they print is not read.
        """
        for fd in list(self._outputs):
            for _ in range(_UNREAD // _CHUNK * 16):
                if not self._pass_output(fd):
                    break
        if self._connection is not None:
            self._connection.post(Ended(code))
            self._connection.drain_all(_LAST_BYTES_S)
            self._connection.close()


def _set_size(fd: int, rows: int, columns: int) -> None:
    sizes = (max(0, min(one, _LARGEST_SIZE)) for one in (rows, columns))
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, _SIZE.pack(*sizes, 0, 0))
