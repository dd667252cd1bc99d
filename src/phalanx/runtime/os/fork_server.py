"""The process that forks others for a node: it starts the commands of jobs, and reports their ends.

The fork server has no other state. Apart from the threads that start commands, it has one thread,
as a process that forks should. When one of its processes ends, the fork server ends everything that
this process has left behind, in whatever session. But if a command was asked to end, the processes
that it leaves may use the rest of its grace period. When the node's end of the socket closes, the
fork server ends everything that it has started, except kept commands: these end only if the node
has ordered it. If the fork server itself is killed, its children continue, and the node keeps them
(`survivors.py`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial

import msgspec

from phalanx.model.raw_bytes import all_native
from phalanx.model.shortages import is_shortage
from phalanx.protocol.bundle_messages import Streams
from phalanx.protocol.fork_messages import (
    Began,
    EndKept,
    Exited,
    OutputRead,
    ReadOutput,
    RunCommand,
    SendSignal,
    SignalCommand,
    decode_body,
)
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.command_groups import CommandGroup, find_command_groups
from phalanx.runtime.os.command_starters import CommandStarters, Starting
from phalanx.runtime.os.connection import Connection, listen
from phalanx.runtime.os.exit_files import read_exit_file
from phalanx.runtime.os.lingering import Lingering
from phalanx.runtime.os.polling import wait_for
from phalanx.runtime.os.process_tree import (
    children_of,
    end_orphans,
    is_stopped,
    keep_descendants,
    own_children,
    reaped,
    signal_command,
    stopped_children,
)
from phalanx.runtime.os.shields import Shield, fork_shielded, reap

_AGAIN_S = 0.05
_WRITTEN_S = 0.001
_ENDING_PASSES = 10
_CONTINUED_S = 1.0
"""The longest time, in seconds, until a stopped shield is continued."""
_LOOKED_AT_S = 10.0
"""The longest time, in seconds, until a stopped shield is continued whose stop went to another
process, for example to a fork server that was killed at that moment.
"""
PASSED_OVER = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that do not end this process. It is the parent of the work here, and programs send some
of these signals to their parents. The process ends when its node does.
"""


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
        """The control group of the process and of everything that it starts; None if there is
        none.
        """
        self.socket = socket
        """The path of the socket at which other processes connect to the process's streams; "" if
        there is none.
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
        self.why_killed = ""
        """Why the kernel has killed processes of the child."""
        self.has_ended = False
        self.is_parent_killed = False
        """Whether the child has ended because its shield was killed."""
        self.is_killed = False
        """Whether the child was sent SIGKILL. The processes that it has started then have no grace
        period any more.
        """


class ForkServer:
    """The children, and the loop that watches them."""

    def __init__(
        self, sock: socket.socket, session: sessions.Session, lifeline: int = -1, node: int = 0
    ) -> None:
        """`lifeline`: see `shields`; with -1, the children end together with this process. `node`:
        the pid of the node; 0 stands for this process's parent.
        """
        self.node = Connection(sock, decode=decode_body)
        self._session = session
        self.lifeline, self._own_end = (lifeline, -1) if lifeline >= 0 else os.pipe()
        self._groups = find_command_groups(node or os.getppid())
        keep_descendants()
        self._epoll = select.epoll()
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self.node.on_writable = self._want_writable
        self._readers: dict[int, Callable[[], None]] = {}
        self._children: dict[bytes, Child] = {}
        self._starters = CommandStarters(time.monotonic, self.lifeline)
        self._starting: dict[bytes, Starting] = {}
        self.read_from(self._starters.fileno, self._commands_begun)
        self._ends_orphans = False
        """Whether some orphans must still be ended."""
        self._lingering: list[Child] = []
        """Children that have ended while processes that they started continue."""
        self._emptying: list[Child] = []
        """Children that have ended while processes in their groups are being killed."""
        self._unwritten: list[Child] = []
        """Children that have ended and whose shields have not yet written how they ended."""
        self._ends_kept = False
        self._continue_at = 0.0
        self._look_at = 0.0

    def serve(self) -> None:
        """Run until the node is gone."""
        keeps = os.path.isdir(self._session.kept)
        for number in PASSED_OVER:
            if signal.getsignal(number) == signal.SIG_DFL:
                # a program that is started has the default handler
                signal.signal(number, lambda *_: None)
        while self.round(self.patience_s()):
            pass
        self.end_everything()
        sessions.leave(self._session, is_over=self._ends_kept, keeps=keeps)

    def round(self, patience_s: float | None) -> bool:
        """Handle the events that have arrived, or that arrive within this time. Returns False if
        the node is gone.
        """
        for fd, mask in self._epoll.poll(patience_s):
            if fd == self.node.fileno:
                if mask & select.EPOLLOUT:
                    self.node.drain()
                if mask & ~select.EPOLLOUT and not self._from_node():
                    return False
            elif fd in self._readers:
                self._readers[fd]()
        if self._lingering or self._ends_orphans:
            self._end_orphans()
            self._bury_ended()
        for child in list(self._emptying):
            self._bury(child)
        for child in list(self._unwritten):
            self._follow_end(child)
        if self._starters.is_behind:
            self._starters.look()
        self._continue_shields()
        self.after_round()
        self.node.flush()
        return True

    def patience_s(self) -> float | None:
        """Return how long to wait for an event, in seconds; None for no limit."""
        is_soon = self._ends_orphans or self._starters.is_behind or self._lingering
        is_soon = is_soon or self._emptying
        if self._unwritten:
            return _WRITTEN_S
        if is_soon:
            return _AGAIN_S
        return _CONTINUED_S if self._children or self._starting else None

    def after_round(self) -> None:
        """Do additional work of a subclass after each round of events, or after a wait without
        events.
        """

    def _want_writable(self, connection: Connection, wanted: bool) -> None:
        mask = select.EPOLLIN | (select.EPOLLOUT if wanted else 0)
        self._epoll.modify(connection.fileno, mask)

    def read_from(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever the descriptor can be read."""
        self._readers[fd] = reader
        self._epoll.register(fd, select.EPOLLIN)

    def stop_reading(self, fd: int) -> None:
        """Stop reading from this descriptor, and close it."""
        self.leave(fd)
        os.close(fd)

    def leave(self, fd: int) -> None:
        """Stop reading from this descriptor, which stays open."""
        del self._readers[fd]
        self._epoll.unregister(fd)

    def _from_node(self) -> bool:
        messages = self.node.receive()
        if messages is None:
            return False
        for message in messages:
            self.on_message(message)
        return True

    def on_message(self, message: msgspec.Struct) -> None:
        """Handle an order of the node."""
        match message:
            case RunCommand():
                self._run(all_native(message))
            case EndKept():
                self._ends_kept = True
            case ReadOutput():  # the output of commands does not pass through this process
                self.node.post(OutputRead())
            case SendSignal() | SignalCommand() if message.process in self._starting:
                self._signal_starting(message)
            case SendSignal():
                child = self._children.get(message.process)
                if child is not None:
                    self._send(child, message.signal)
            case SignalCommand():
                child = self._children.get(message.process)
                if child is not None:
                    for pid in children_of(child.pid) if child.socket else [child.pid]:
                        signal_command(pid, message.signal, message.to)

    # ---- children ----------------------------------------------------------------------------

    def _run(self, order: RunCommand) -> None:
        """Start a command in a process group of its own, and in a control group of its own if there
        are any.
        """
        group = self._groups.make(order.process, order.memory_bytes)
        if order.streams is not None:
            self._run_attached(order, group, order.streams)
            return
        starting = self._starting[order.process] = Starting(order, group)
        self._starters.start(starting)

    def _commands_begun(self) -> None:
        for starting in self._starters.begun():
            order, group = starting.order, starting.group
            del self._starting[order.process]
            if starting.error is not None:
                if group is not None:
                    group.end()
                self.report_failure(order.process, starting.error)
                continue
            pid, shield = starting.pid.value, starting.shield
            child = Child(
                order.process,
                pid,
                is_command=True,
                group=group,
                shield=shield,
                exit_file=order.exit_file,
            )
            if not self._adopt_command(child):
                continue
            for message in starting.signals:
                self.on_message(message)

    def _signal_starting(self, message: SendSignal | SignalCommand) -> None:
        """Keep a signal for a command that has not begun. SIGKILL is sent at once.

        A command that must be killed may never begin.
        """
        starting = self._starting[message.process]
        starting.signals.append(message)
        if message.signal == signal.SIGKILL and starting.pid.value:
            with contextlib.suppress(ProcessLookupError):
                os.kill(starting.pid.value, signal.SIGKILL)

    def _run_attached(
        self, order: RunCommand, group: CommandGroup | None, streams: Streams
    ) -> None:
        path = self._session.socket_of(streams.process)
        entrance = -1 if group is None else group.entrance()
        try:
            pid, shield = self._stand(order, path, entrance)
        except OSError as error:
            if group is not None:
                group.end()
            self.report_failure(order.process, error)
            return
        finally:
            if entrance >= 0:
                os.close(entrance)
        self._adopt_command(
            Child(order.process, pid, is_command=True, group=group, socket=path, shield=shield)
        )

    def _adopt_command(self, child: Child) -> bool:
        """Watch a command that has begun, and report that it has. If it cannot be watched, end it
        and return False.
        """
        try:
            self.adopt(child)
        except OSError as error:
            del self._children[child.process]
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            if child.group is not None:
                child.group.end()
            if child.shield is not None:
                child.shield.end()
            os.waitpid(child.pid, 0)
            self.report_failure(child.process, error)
            return False
        shield = 0 if child.shield is None else child.shield.pid
        self.node.post(Began(child.process, child.pid, shield))
        return True

    def _stand(self, order: RunCommand, path: str, entrance: int) -> tuple[int, Shield]:
        """Start a process of Phalanx that runs the command and carries its streams."""
        # Imported here because most commands need no streams, and the first waits for the imports.
        from phalanx.runtime.os.attached import stand_for

        with listen(path) as listening:
            pid, shield = fork_shielded(self.lifeline)
            if pid == 0:
                keep_descendants()
                with contextlib.suppress(OSError):  # the group is gone, or the command has none
                    os.write(entrance, b"0")
                self.close_in_child()
                stand_for(order, listening, path)
        return pid, shield

    def close_in_child(self) -> None:
        """Close everything that is watched here. A child calls this that continues as a program of
        Phalanx.
        """
        for number in PASSED_OVER:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        self.node.sock.close()
        self._epoll.close()
        for fd in self._readers:
            os.close(fd)
        for fd in (self.lifeline, self._own_end):
            if fd >= 0:
                os.close(fd)
        self._starters.close_in_child()

    def adopt(self, child: Child) -> None:
        """Watch a child until it ends, and then its shield until the shield ends."""
        self._children[child.process] = child
        shield = None if child.exit_file else child.shield
        pidfd = os.pidfd_open(child.pid if shield is None else shield.pid)
        self.read_from(pidfd, partial(self._on_end, pidfd, child))

    def report_failure(self, process: bytes, error: OSError) -> None:
        """Report that a process could not be started."""
        reason = f"no process could be started for it: {error.strerror}"
        self.node.post(Exited(process, 0, 1, reason, is_shortage=is_shortage(error)))

    def _send(self, child: Child, number: int) -> None:
        """Send a signal to a command and all processes that it has started, or to one worker."""
        if number == signal.SIGKILL:
            if child.has_ended:
                child.lingering = None
                self._follow_end(child)
                return
            child.lingering, child.is_killed = None, True
        elif child.is_killed:
            return
        elif number == signal.SIGTERM and child.is_command and not child.socket:
            child.lingering = child.lingering or Lingering(child.pid)
            child.lingering.ask()
            return
        _signal(child, number)
        if number == signal.SIGKILL and child.shield is not None:
            child.shield.go_on()

    def _on_end(self, pidfd: int, child: Child) -> None:
        if not wait_for(pidfd, select.POLLIN, 0):
            return  # the event was for another descriptor, which had this number until just now
        self.stop_reading(pidfd)
        child.has_ended = True
        self._follow_end(child)

    def _follow_end(self, child: Child) -> None:
        """Finish a child that has ended, once no process that it has started has a grace period
        left.
        """
        if not self._leave_shield(child):
            return
        if child.lingering is None:
            self._bury(child)
        else:
            self._lingering.append(child)
            self._end_orphans()
            self._bury_ended()

    def _leave_shield(self, child: Child) -> bool:
        """End the shield of a kept command that has ended, once the shield has written how the
        command ended. Processes that the command has left are then descendants of this process.
        Returns whether the shield was ended.
        """
        if not child.exit_file or child.shield is None:
            return True
        child.is_parent_killed = child.shield.is_killed()
        if not child.is_parent_killed and not _is_written(child):
            child.shield.go_on()
            if child not in self._unwritten:
                self._unwritten.append(child)
            return False
        if child in self._unwritten:
            self._unwritten.remove(child)
        child.shield.end()
        child.shield = None
        return True

    def _bury(self, child: Child) -> None:
        """End all processes that a child has left behind. When that is done, report the child's
        end.
        """
        if child in self._lingering:
            self._lingering.remove(child)
        # No other process can use this process group before the child is reaped.
        if child.is_command:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        if child.group is not None:
            child.why_killed = child.group.why_killed() or child.why_killed
            is_empty = child.group.end()
            if is_empty and child in self._emptying:
                self._emptying.remove(child)
            elif not is_empty and child not in self._emptying:
                self._emptying.append(child)
            if not is_empty:
                return
        if child.shield is not None:
            child.is_parent_killed = child.shield.is_killed()
            reap(child.shield.pid)
        _, status, used = os.wait4(child.pid, 0)
        if child.socket:
            with contextlib.suppress(OSError):
                os.unlink(child.socket)
        del self._children[child.process]
        self._end_orphans()
        self.before_end(child)
        code = os.waitstatus_to_exitcode(status)
        # Before the child became a program, it was a copy of this process. So a size up to that of
        # this process tells nothing about the program.
        is_more = used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu_s, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 if is_more else 0
        self.node.post(
            Exited(
                child.process,
                child.pid,
                code,
                child.why_killed,
                cpu_s,
                memory,
                child.is_parent_killed,
            )
        )

    def before_end(self, child: Child) -> None:
        """Do additional work of a subclass before the end of a child is reported."""

    def _end_orphans(self) -> None:
        """End the orphans of children that have ended here, without those that have a grace
        period.
        """
        self._ends_orphans = not end_orphans(self._known)

    def _known(self) -> set[int]:
        """Return the children that are no orphans, and the orphans with a grace period."""
        # Taken before the children that begin from now on are known.
        there = own_children() if self._lingering else []
        known = {child.pid for child in self._children.values()}
        known |= {c.shield.pid for c in self._children.values() if c.shield is not None}
        for starting in self._starting.values():
            known |= {starting.pid.value, 0 if starting.shield is None else starting.shield.pid}
        known |= self.others()
        orphans = [pid for pid in there if pid not in known]
        for child in self._lingering:
            assert child.lingering is not None
            in_group = () if child.group is None else child.group.processes()
            known |= child.lingering.claim(orphans, in_group)
        return known

    def _continue_shields(self) -> None:
        """Continue shields that were stopped. Otherwise the ends of their children would stay
        unknown.
        """
        now = time.monotonic()
        if now < self._continue_at:
            return
        self._continue_at = now + _CONTINUED_S
        shields = {c.shield.pid for c in self._children.values() if c.shield is not None}
        shields |= self.new_shields()
        stopped = stopped_children(len(shields)) & shields
        if now >= self._look_at:
            self._look_at = now + _LOOKED_AT_S
            stopped |= set(filter(is_stopped, shields))
        for pid in stopped:
            Shield(pid).go_on()

    def new_shields(self) -> set[int]:
        """Return the shields of work that is being started."""
        return self._starters.shields()

    def others(self) -> set[int]:
        """Return the children of this process that are neither work nor left behind by work."""
        return self.new_shields()

    def _bury_ended(self) -> None:
        """Report the ends of children of which no process is left."""
        for child in list(self._lingering):
            if child.lingering is not None and not child.lingering.left:
                self._bury(child)

    def end_everything(self) -> None:
        """End all children, except for kept ones that continue. Commands that are being started end
        together with their threads.
        """
        ended = [child for child in self._children.values() if not self._goes_on(child)]
        for child in ended:
            with contextlib.suppress(ProcessLookupError):
                _signal(child, signal.SIGKILL)
            if child.group is not None:
                child.group.end()
        for child in ended:
            if child.shield is not None:
                child.shield.end()
            reaped(child.pid)
        for _ in range(_ENDING_PASSES):
            if end_orphans(lambda: self.others() | self._kept_shields()):
                break

    def _kept_shields(self) -> set[int]:
        """Return the shields that continue when the node has ended."""
        shields = [child.shield for child in self._children.values() if self._goes_on(child)]
        if not self._ends_kept:
            shields += [one.shield for one in self._starting.values() if one.order.exit_file]
        return {shield.pid for shield in shields if shield is not None}

    def _goes_on(self, child: Child) -> bool:
        """Whether a child continues after the node has ended, because it is kept."""
        return bool(child.exit_file) and not self._ends_kept


def _is_written(child: Child) -> bool:
    """Whether the shield of a kept command that has ended has written how it ended."""
    written = read_exit_file(child.exit_file)
    return written is None or written.code is not None


def _signal(child: Child, number: int) -> None:
    """Send a signal to a command's whole process group, or to one worker."""
    if child.is_command:
        try:
            os.killpg(child.pid, number)
            return
        except ProcessLookupError:
            pass  # the child has not made its group yet
    os.kill(child.pid, number)
