"""Watches the processes that a fork server has started, until everything that they leave behind has
ended.

When one of these processes ends, all processes that it has left behind are ended, too, in whatever
Unix session they are. But if a command was asked to end, the processes that it leaves may use the
rest of its grace period.
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

from phalanx.model.shortages import is_shortage
from phalanx.protocol.fork_messages import (
    Began,
    EndKept,
    Exited,
    SendSignal,
    SignalCommand,
    decode_body,
)
from phalanx.runtime.os.child import Child, is_end_written, send_signal
from phalanx.runtime.os.command_groups import find_command_groups
from phalanx.runtime.os.connection import Connection
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
from phalanx.runtime.os.shields import Shield, reap

AGAIN_S = 0.05
_WRITTEN_S = 0.001
_ENDING_PASSES = 10
CONTINUED_S = 1.0
"""The longest time, in seconds, until a stopped shield is continued."""
_LOOKED_AT_S = 10.0
"""The longest time, in seconds, until a stopped shield is continued if the kernel has reported the
stop to another process, for example to a fork server that was killed at that moment.
"""
PASSED_OVER = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that do not end this process. It is the parent of the work here, and programs send some
of these signals to their parents. The process ends when its node ends.
"""


class ChildKeeper:
    """The children of this process, and the loop that watches them and the node's socket."""

    def __init__(self, sock: socket.socket, lifeline: int = -1, node: int = 0) -> None:
        """`lifeline`: the pipe that ends the children together with the node (see `shields`); with
        -1, they end together with this process. `node`: the pid of the node; 0 stands for this
        process's parent.
        """
        self.lifeline, self._own_end = (lifeline, -1) if lifeline >= 0 else os.pipe()
        self._groups = find_command_groups(node or os.getppid())
        keep_descendants()
        self._epoll = select.epoll()
        self.follow(Connection(sock, decode=decode_body))
        self._readers: dict[int, Callable[[], None]] = {}
        self._children: dict[bytes, Child] = {}
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

    def follow(self, node: Connection) -> None:
        """Take orders from this connection, and report over it."""
        self.node = node
        self._epoll.register(node.fileno, select.EPOLLIN)
        node.on_writable = self._want_writable

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
        self._continue_shields()
        self.after_round()
        self.node.flush()
        return True

    def patience_s(self) -> float | None:
        """Return how long to wait for an event, in seconds; None for no limit."""
        if self._unwritten:
            return _WRITTEN_S
        if self._ends_orphans or self._lingering or self._emptying:
            return AGAIN_S
        return CONTINUED_S if self._children else None

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
            case EndKept():
                self._ends_kept = True
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

    def close_in_child(self) -> None:
        """Close everything that is watched here. This is for a child that continues as a program of
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

    def adopt(self, child: Child) -> None:
        """Watch a child until it has ended. The shield of a child without an exit file ends just
        after the child, and is watched instead.
        """
        self._children[child.process] = child
        shield = None if child.exit_file else child.shield
        pidfd = os.pidfd_open(child.pid if shield is None else shield.pid)
        self.read_from(pidfd, partial(self._on_end, pidfd, child))

    def report_failure(self, process: bytes, error: OSError) -> None:
        """Report that a process could not be started."""
        reason = f"no process could be started for it: {error.strerror}"
        self.report(Exited(process, 0, 1, reason, is_shortage=is_shortage(error)))

    def report(self, message: Began | Exited) -> None:
        """Report the beginning or the end of a process to the node."""
        self.node.post(message)

    def _send(self, child: Child, number: int) -> None:
        """Send a signal to one worker, or to a command's process group. A command's SIGTERM reaches
        all processes that the command has started. After SIGKILL, no other signal is sent.
        """
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
        send_signal(child, number)
        if number == signal.SIGKILL and child.shield is not None:
            child.shield.go_on()

    def _on_end(self, pidfd: int, child: Child) -> None:
        if not wait_for(pidfd, select.POLLIN, 0):
            return  # the event was for another descriptor, which had this number until just now
        self.stop_reading(pidfd)
        child.has_ended = True
        self._follow_end(child)

    def _follow_end(self, child: Child) -> None:
        """Handle the end of a child itself. If processes that it has started may use a grace
        period, wait for them; otherwise end them now and report the child's end.
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
        if not child.is_parent_killed and not is_end_written(child):
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
        self.report(
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
        """End the orphans of children that have ended, except those with a grace period."""
        self._ends_orphans = not end_orphans(self._known)

    def _known(self) -> set[int]:
        """Return the children that are no orphans, and the orphans with a grace period."""
        # Taken before the children that begin from now on are known.
        there = own_children() if self._lingering else []
        known = {child.pid for child in self._children.values()}
        known |= {c.shield.pid for c in self._children.values() if c.shield is not None}
        # A thread may end a start at any moment. The shield then leaves `others` for
        # `being_started`, so `others` is asked first: the other order could miss the shield.
        others = self.others()
        known |= others | self.being_started()
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
        self._continue_at = now + CONTINUED_S
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
        return set()

    def being_started(self) -> set[int]:
        """Return the processes of work that is being started, and their shields."""
        return set()

    def others(self) -> set[int]:
        """Return the children of this process that are neither work nor left behind by work."""
        return self.new_shields()

    def _bury_ended(self) -> None:
        """Report the ends of children of which no process is left."""
        for child in list(self._lingering):
            if child.lingering is not None and not child.lingering.left:
                self._bury(child)

    def end_everything(self) -> None:
        """End all children, except for kept ones that continue. Commands that are being started
        end when this process ends, with the threads that start them.
        """
        ended = [child for child in self._children.values() if not self._goes_on(child)]
        for child in ended:
            send_signal(child, signal.SIGKILL)
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
        return {shield.pid for shield in shields if shield is not None}

    def _goes_on(self, child: Child) -> bool:
        """Whether a child continues after the node has ended, because it is kept."""
        return bool(child.exit_file) and not self._ends_kept
