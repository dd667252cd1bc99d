"""The process that forks others for a node: it starts the commands of jobs, and reports their ends.

The fork server has no state apart from these commands. It has one thread, as a process that forks
should, and threads that start commands. `child_keeper.py` follows its children to their ends. When
the node's end of the socket closes, the fork server ends everything that it has started, except
kept commands: these end only if the node has ordered their end. If the fork server itself is
killed, its children continue, and the node keeps them (`survivors.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time

import msgspec

from phalanx.model.raw_bytes import all_native
from phalanx.protocol.bundle_messages import Streams
from phalanx.protocol.fork_messages import (
    Began,
    OutputRead,
    ReadOutput,
    RunCommand,
    SendSignal,
    SignalCommand,
)
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.child import Child
from phalanx.runtime.os.child_keeper import AGAIN_S, CONTINUED_S, PASSED_OVER, ChildKeeper
from phalanx.runtime.os.command_groups import CommandGroup, Limits
from phalanx.runtime.os.command_starters import CommandStarters, Starting
from phalanx.runtime.os.connection import listen
from phalanx.runtime.os.process_tree import keep_descendants
from phalanx.runtime.os.shields import Shield, fork_shielded, reap

TOGETHER_S = 0.005
"""The longest time, in seconds, for which the report that a command has begun is held back. If the
command ends within this time, one message reports its beginning and its end. Reports are held back
only while commands are short (see BRISK_S).
"""
BRISK_S = 0.1
"""After a command has ended that ran for less than TOGETHER_S, reports of beginnings are held back
for this number of seconds.
"""


class ForkServer(ChildKeeper):
    """Starts the commands of jobs, and keeps them as its children."""

    def __init__(
        self, sock: socket.socket, session: sessions.Session, lifeline: int = -1, node: int = 0
    ) -> None:
        """`lifeline` and `node`: see ChildKeeper."""
        super().__init__(sock, lifeline, node)
        self._session = session
        self._starters = CommandStarters(time.monotonic, self.lifeline)
        self._starting: dict[bytes, Starting] = {}
        self._unreported: list[Began] = []
        """The reports of beginnings that are held back, in order."""
        self._report_at = 0.0
        self._is_brisk_until = 0.0
        self.read_from(self._starters.fileno, self._commands_begun)

    def serve(self) -> None:
        """Run until the node is gone. Then end everything that must not outlive the node, and
        delete its session unless members continue.
        """
        keeps = os.path.isdir(self._session.kept)
        self.pass_signals_over()
        while self.round(self.patience_s()):
            pass
        self.end_everything()
        sessions.leave(self._session, is_over=self._ends_kept, keeps=keeps)

    def pass_signals_over(self) -> None:
        """Handle signals that work may send to its parent, so that they do not end this process."""
        for number in PASSED_OVER:
            if signal.getsignal(number) == signal.SIG_DFL:
                # a program that is started has the default handler
                signal.signal(number, lambda *_: None)

    def on_message(self, message: msgspec.Struct) -> None:
        """Handle an order of the node."""
        match message:
            case RunCommand():
                self._run(all_native(message))
            case ReadOutput():  # the output of commands does not pass through this process
                self.node.post(OutputRead())
            case SendSignal() | SignalCommand() if message.process in self._starting:
                self._signal_starting(message)
            case _:
                super().on_message(message)

    def _run(self, order: RunCommand) -> None:
        """Start a command in a process group of its own, and in a control group of its own if there
        are any.
        """
        group = self._groups.make(order.process, Limits(order.memory_bytes, order.cpus))
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
        """Keep a signal for a command that has not begun. SIGKILL is sent without delay.

        A command that must be killed may never begin.
        """
        starting = self._starting[message.process]
        starting.signals.append(message)
        if message.signal == signal.SIGKILL and starting.pid.value:
            with contextlib.suppress(ProcessLookupError, PermissionError):
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
        """Watch a command that has begun, and report its beginning. If the command cannot be
        watched, end it and return False.
        """
        try:
            self.adopt(child)
        except OSError as error:
            self.give_up(child, error)
            return False
        shield = 0 if child.shield is None else child.shield.pid
        now = child.began_at = time.monotonic()
        if not self._unreported:
            self._report_at = now + TOGETHER_S
        self._unreported.append(Began(child.process, child.pid, shield))
        if child.exit_file or child.socket or now >= self._is_brisk_until:
            self._report_begun()
        return True

    def _report_begun(self) -> None:
        for report in self._unreported:
            self.report(report)
        self._unreported.clear()

    def before_end(self, child: Child) -> None:
        """Report the child's beginning before its end is reported."""
        now = time.monotonic()
        if now - child.began_at < TOGETHER_S:
            self._is_brisk_until = now + BRISK_S
        self._report_begun()

    def give_up(self, child: Child, error: OSError) -> None:
        """End a child that cannot be watched, and report that it could not be started."""
        del self._children[child.process]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child.pid, signal.SIGKILL)
        if child.group is not None:
            child.group.end()
        if child.shield is not None:
            child.shield.end()
        reap(child.pid)
        self.report_failure(child.process, error)

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

    # ---- commands that are being started -----------------------------------------------------

    def patience_s(self) -> float | None:
        """Return how long to wait for an event, in seconds; None for no limit."""
        patience_s = super().patience_s()
        limit_s = AGAIN_S if self._starters.is_behind else CONTINUED_S if self._starting else None
        if self._unreported:
            limit_s = max(self._report_at - time.monotonic(), 0.0)
        return min((s for s in (patience_s, limit_s) if s is not None), default=None)

    def after_round(self) -> None:
        """Start another thread if commands wait for one, and report commands that have begun."""
        if self._starters.is_behind:
            self._starters.look()
        if self._unreported and time.monotonic() >= self._report_at:
            self._report_begun()

    def close_in_child(self) -> None:
        """Close everything that is watched here, and the descriptors of the threads."""
        super().close_in_child()
        self._starters.close_in_child()

    def new_shields(self) -> set[int]:
        """Return the shields of commands that are being started."""
        return self._starters.shields()

    def being_started(self) -> set[int]:
        """Return the processes of commands that are being started, and their shields."""
        found: set[int] = set()
        for one in self._starting.values():
            found |= {one.pid.value, 0 if one.shield is None else one.shield.pid}
        return found

    def _kept_shields(self) -> set[int]:
        kept = super()._kept_shields()
        if not self._ends_kept:
            begun = [one for one in self._starting.values() if one.order.exit_file]
            kept |= {one.shield.pid for one in begun if one.shield is not None}
        return kept
