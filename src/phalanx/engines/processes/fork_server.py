"""The process that forks others for a node: it starts the commands of jobs, and reports their ends.

It has one thread, as who forks should, and holds no other state. Once a process that it has started
ends, it ends all that this has left behind, in whatever session that is. When the node's end of the
socket closes, it ends everything that it has started, however the node ended.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
from collections.abc import Callable
from functools import partial

import msgspec

from phalanx.engines.processes import session as sessions
from phalanx.engines.processes.attached import stand_for
from phalanx.engines.processes.command_groups import CommandGroup, find_command_groups
from phalanx.engines.processes.command_start import start_command
from phalanx.engines.processes.connection import Connection, listen
from phalanx.engines.processes.process_tree import (
    children_of,
    end_orphans,
    end_with_parent,
    keep_descendants,
    signal_command,
)
from phalanx.protocol.fork_messages import (
    Began,
    Exited,
    RunCommand,
    SendSignal,
    SignalCommand,
    decode_body,
)

_AGAIN_S = 0.05
_ENDING_PASSES = 10


class Child:
    """A process that was forked here."""

    def __init__(
        self,
        process: bytes,
        pid: int,
        is_command: bool,
        group: CommandGroup | None = None,
        socket: str = "",
    ) -> None:
        self.process = process
        self.pid = pid
        self.group = group
        """Where it runs with all that it starts, if there are such groups here."""
        self.socket = socket
        """Where others connect to its streams; "": nowhere."""
        self.is_command = is_command
        """Whether it runs a program that is not ours, and all its children end with it."""


class ForkServer:
    """Children, and the loop that watches them."""

    def __init__(self, sock: socket.socket, session: sessions.Session) -> None:
        self.node = Connection(sock, decode=decode_body)
        self._session = session
        self._groups = find_command_groups()
        keep_descendants()
        self._epoll = select.epoll()
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self.node.on_writable = self._want_writable
        self._readers: dict[int, Callable[[], None]] = {}
        self._children: dict[bytes, Child] = {}
        self._ends_orphans = False
        """Whether some are left to end."""

    def serve(self) -> None:
        """Until the node is gone."""
        while True:
            for fd, mask in self._epoll.poll(self.patience_s()):
                if fd == self.node.fileno:
                    if mask & select.EPOLLOUT:
                        self.node.drain()
                    if mask & ~select.EPOLLOUT and not self._from_node():
                        self._end_everything()
                        return
                elif fd in self._readers:
                    self._readers[fd]()
            if self._ends_orphans:
                self._end_orphans()
            self.after_round()
            self.node.flush()

    def patience_s(self) -> float | None:
        """How long to wait for something to happen; None: for ever."""
        return _AGAIN_S if self._ends_orphans else None

    def after_round(self) -> None:
        """What had happened is seen to, or nothing did for so long."""

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        self._epoll.modify(connection.fileno, mask)

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever there is something to read."""
        self._readers[fd] = reader
        self._epoll.register(fd, select.EPOLLIN)

    def stop_reading(self, fd: int) -> None:
        """Read from this descriptor no longer, and close it."""
        del self._readers[fd]
        self._epoll.unregister(fd)
        os.close(fd)

    def _from_node(self) -> bool:
        messages = self.node.receive()
        if messages is None:
            return False
        for message in messages:
            self.on_message(message)
        return True

    def on_message(self, message: msgspec.Struct) -> None:
        """The node wants something done."""
        match message:
            case RunCommand():
                self._run(message)
            case SendSignal():
                child = self._children.get(message.process)
                if child is not None:
                    _signal(child, message.signal)
            case SignalCommand():
                child = self._children.get(message.process)
                if child is not None:
                    for pid in children_of(child.pid) if child.socket else [child.pid]:
                        signal_command(pid, message.signal, message.to)

    # ---- children ----------------------------------------------------------------------------

    def _run(self, order: RunCommand) -> None:
        """Start a command in a process group, and a control group if there are any, of its own."""
        group = self._groups.make(order.process, order.memory_bytes)
        entrance = -1 if group is None else group.entrance()
        path = ""
        try:
            if order.streams is None:
                pid = start_command(
                    order.argv, order.variables, order.directory, order.log, entrance
                )
            else:
                path = self._session.socket_of(order.streams.process)
                pid = self._stand(order, path, entrance)
        except OSError as error:
            if group is not None:
                group.end()
            self.report_failure(order.process, error)
            return
        finally:
            if entrance >= 0:
                os.close(entrance)
        self.adopt(Child(order.process, pid, is_command=True, group=group, socket=path))
        self.node.post(Began(order.process, pid))

    def _stand(self, order: RunCommand, path: str, entrance: int) -> int:
        """Start a process of ours that runs the command and has its streams."""
        parent = os.getpid()
        with listen(path) as listening:
            pid = os.fork()
            if pid == 0:
                end_with_parent(parent)
                keep_descendants()
                with contextlib.suppress(OSError):  # its group is gone, or there are none
                    os.write(entrance, b"0")
                self.close_in_child()
                stand_for(order, listening, path)
        return pid

    def close_in_child(self) -> None:
        """In a child that goes on as a program of ours: let go of all that is watched here."""
        self.node.sock.close()
        self._epoll.close()
        for fd in self._readers:
            os.close(fd)

    def adopt(self, child: Child) -> None:
        """Watch a child until it ends."""
        self._children[child.process] = child
        pidfd = os.pidfd_open(child.pid)
        self.read_from(pidfd, partial(self._reap, pidfd, child))

    def report_failure(self, process: bytes, error: OSError) -> None:
        """Say that a process could not be started."""
        reason = f"no process could be started for it: {error.strerror}"
        self.node.post(Exited(process, 0, 1, reason))

    def _reap(self, pidfd: int, child: Child) -> None:
        if child.is_command:  # while it is not reaped nobody else has its process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        reason = "" if child.group is None else child.group.end()
        _, status, used = os.wait4(child.pid, 0)
        self.stop_reading(pidfd)
        if child.socket:
            with contextlib.suppress(OSError):
                os.unlink(child.socket)
        del self._children[child.process]
        self._end_orphans()
        self.before_end(child)
        code = os.waitstatus_to_exitcode(status)
        # Before it became a program it was a copy of this process: so much says nothing of it.
        is_more = used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu_s, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 if is_more else 0
        self.node.post(Exited(child.process, child.pid, code, reason, cpu_s, memory))

    def before_end(self, child: Child) -> None:
        """A child has ended, and that is about to be reported."""

    def _end_orphans(self) -> None:
        """End what those have left behind that have ended here."""
        self._ends_orphans = not end_orphans({child.pid for child in self._children.values()})

    def _end_everything(self) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                _signal(child, signal.SIGKILL)
            if child.group is not None:
                child.group.end()
        for _ in range(_ENDING_PASSES):
            if end_orphans(()):
                break
        sessions.remove(self._session)


def _signal(child: Child, number: int) -> None:
    """To a command's whole process group, or to one worker."""
    if child.is_command:
        try:
            os.killpg(child.pid, number)
            return
        except ProcessLookupError:
            pass  # it has not made its group yet
    os.kill(child.pid, number)
