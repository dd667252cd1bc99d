"""The parent of all workers: forks them warm, reports their end, and reads what they print.

It has imported what workers need before it forks, so a worker is there in milliseconds and shares
its pages. It starts the commands of jobs as well, whose output goes to files of their own. It holds
no other state; when the node's end of the socket closes, it ends everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from phalanx.engines.embedded import session as sessions
from phalanx.engines.embedded.connection import Connection, wait_for
from phalanx.engines.embedded.worker.commands import become_command
from phalanx.protocol.node_messages import LogLine
from phalanx.protocol.zygote_messages import (
    Began,
    Exited,
    Fork,
    OutputRead,
    ReadOutput,
    RunCommand,
    SendSignal,
    decode_body,
)

_PR_SET_PDEATHSIG = 1
_MAX_LINE = 64 * 1024
NAME_MARK = "\x1e"
"""A line that begins so tells under which name the lines after it were printed."""


def run(sock: socket.socket, session: sessions.Session, preload: list[str]) -> NoReturn:
    """Serve the node until its socket closes; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in preload:
        with contextlib.suppress(Exception):
            __import__(module)
    # Warm for the children.
    import phalanx.engines.embedded.worker.actor_host
    import phalanx.engines.embedded.worker.process  # noqa: F401

    libc = ctypes.CDLL(None, use_errno=True)
    gc.collect()
    gc.freeze()
    Zygote(sock, session, libc).serve()
    os._exit(0)


class _Child:
    """A worker with its two output pipes, or a command."""

    def __init__(
        self, process: bytes, pid: int, pidfd: int, pipes: tuple[int, ...], is_command: bool = False
    ) -> None:
        self.is_command = is_command
        """Whether it runs a program that is not ours, and all its children end with it."""
        self.process = process
        self.pid = pid
        self.pidfd = pidfd
        self.pipes = pipes
        self.partial = [b"", b""]
        self.names = ["", ""]


class Zygote:
    """Children by descriptor, and the loop that watches them."""

    def __init__(self, sock: socket.socket, session: sessions.Session, libc: Any) -> None:
        self._node = Connection(sock, decode=decode_body)
        self._session = session
        self._libc = libc
        self._epoll = select.epoll()
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._node.on_writable = self._want_writable
        self._by_pidfd: dict[int, _Child] = {}
        self._by_pipe: dict[int, tuple[_Child, int]] = {}
        self._by_process: dict[bytes, _Child] = {}

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        self._epoll.modify(connection.fileno, mask)

    def serve(self) -> None:
        """Until the node is gone."""
        while True:
            for fd, mask in self._epoll.poll():
                if fd == self._node.fileno:
                    if mask & select.EPOLLOUT:
                        self._node.drain()
                    if mask & ~select.EPOLLOUT and not self._from_node():
                        self._end_everything()
                        return
                elif fd in self._by_pipe:
                    self._read_output(fd)
                elif fd in self._by_pidfd:
                    self._reap(fd)
            self._node.flush()

    def _from_node(self) -> bool:
        messages = self._node.receive()
        if messages is None:
            return False
        for message in messages:
            match message:
                case Fork():
                    self._fork(message.worker, message.variables)
                case RunCommand():
                    self._run(message)
                case ReadOutput():
                    self._read_all_output()
                case SendSignal():
                    child = self._by_process.get(message.process)
                    if child is not None:
                        _signal(child, message.signal)
        return True

    def _run(self, order: RunCommand) -> None:
        """Start a command in a process group of its own."""
        try:
            pid = os.fork()
        except OSError as error:
            self._not_started(order.process, error)
            return
        if pid == 0:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            become_command(order.argv, order.variables, order.directory, order.log)
        child = _Child(order.process, pid, os.pidfd_open(pid), (), is_command=True)
        self._by_process[order.process] = self._by_pidfd[child.pidfd] = child
        self._epoll.register(child.pidfd, select.EPOLLIN)
        if order.is_watched:
            self._node.post(Began(order.process, pid))

    def _not_started(self, process: bytes, error: OSError) -> None:
        reason = f"no process could be started for it: {error.strerror}"
        self._node.post(Exited(process, 0, 1, reason))

    def _fork(self, worker: bytes, environment: dict[str, str]) -> None:
        opened: list[int] = []
        try:
            for _ in range(2):
                opened += os.pipe()
            opened.append(os.dup(opened[0]))  # the descriptor that will watch the process
            pid = os.fork()
        except OSError as error:
            for fd in opened:
                os.close(fd)
            self._not_started(worker, error)
            return
        out_read, out_write, err_read, err_write, spare = opened
        os.close(spare)
        if pid == 0:
            self._become_worker(worker, environment, out_write, err_write)
        os.close(out_write)
        os.close(err_write)
        for fd in (out_read, err_read):
            os.set_blocking(fd, False)
        child = _Child(worker, pid, os.pidfd_open(pid), (out_read, err_read))
        self._by_process[worker] = self._by_pidfd[child.pidfd] = child
        for i, fd in enumerate(child.pipes):
            self._by_pipe[fd] = (child, i)
            self._epoll.register(fd, select.EPOLLIN)
        self._epoll.register(child.pidfd, select.EPOLLIN)

    def _become_worker(
        self, worker: bytes, environment: dict[str, str], out: int, err: int
    ) -> NoReturn:
        code = 1
        try:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.setsid()
            os.dup2(out, 1)
            os.dup2(err, 2)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            for fd in (out, err, null):
                if fd > 2:
                    os.close(fd)
            self._node.sock.close()
            self._epoll.close()
            for fd in [*self._by_pipe, *self._by_pidfd]:
                os.close(fd)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for name, value in environment.items():
                os.environ[name] = os.path.expandvars(value)
            from phalanx.engines.embedded.worker import process as worker_process

            code = worker_process.main(worker, self._session)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _read_all_output(self) -> None:
        """Pass on what workers have printed so far, and say when that is done."""
        for fd in list(self._by_pipe):
            while fd in self._by_pipe and select.select([fd], [], [], 0)[0]:
                self._read_output(fd)
        self._node.post(OutputRead())

    def _read_output(self, fd: int) -> None:
        child, i = self._by_pipe[fd]
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._epoll.unregister(fd)
            os.close(fd)
            del self._by_pipe[fd]
            if child.partial[i]:
                self._line(child, i, child.partial[i])
            return
        lines = (child.partial[i] + data).split(b"\n")
        child.partial[i] = lines.pop()
        if len(child.partial[i]) > _MAX_LINE:
            lines.append(child.partial[i])
            child.partial[i] = b""
        for line in lines:
            self._line(child, i, line)

    def _line(self, child: _Child, i: int, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace")
        if line.startswith(NAME_MARK):
            child.names[i] = line[1:]
            return
        self._node.post(LogLine(child.pid, child.names[i], line, i == 1))

    def _reap(self, pidfd: int) -> None:
        child = self._by_pidfd.pop(pidfd)
        if child.is_command:  # while it is not reaped nobody else has its process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        _, status = os.waitpid(child.pid, 0)
        self._epoll.unregister(pidfd)
        os.close(pidfd)
        for fd in child.pipes:
            while fd in self._by_pipe and wait_for(fd, select.POLLIN, 0):
                self._read_output(fd)
        for fd in child.pipes:  # held open by a grandchild: its output is nobody's now
            if self._by_pipe.pop(fd, None) is not None:
                self._epoll.unregister(fd)
                os.close(fd)
        del self._by_process[child.process]
        self._node.post(Exited(child.process, child.pid, os.waitstatus_to_exitcode(status)))

    def _end_everything(self) -> None:
        for child in self._by_process.values():
            with contextlib.suppress(ProcessLookupError):
                _signal(child, signal.SIGKILL)
        sessions.remove(self._session)


def _signal(child: _Child, number: int) -> None:
    """A command's whole process group, or one worker."""
    if child.is_command:
        try:
            os.killpg(child.pid, number)
            return
        except ProcessLookupError:
            pass  # it has not made its group yet
    os.kill(child.pid, number)
