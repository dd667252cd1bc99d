"""The parent of all workers: it forks them, and reads what they print.

It imports the modules that workers need before it forks. So a worker starts in milliseconds, and
shares memory pages with the fork server.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from functools import partial
from typing import NoReturn

import msgspec

from phalanx.model.environments import ENVIRONMENT, is_image
from phalanx.model.packages import VARIABLE as PACKAGES
from phalanx.model.raw_bytes import native
from phalanx.observe.log_lines import WARNING
from phalanx.protocol.fork_messages import Fork, Forked, OutputRead, ReadOutput, SendSignal
from phalanx.protocol.frames import decode_body, encode_body
from phalanx.protocol.node_messages import LogLine
from phalanx.runtime.containers.removing import Removal
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.allocator import keep_freed_memory
from phalanx.runtime.os.child import Child
from phalanx.runtime.os.environment import expanded, leave_our_limits, leave_our_path
from phalanx.runtime.os.fork_server import ForkServer
from phalanx.runtime.os.polling import wait_for
from phalanx.runtime.os.process_names import FORK_SERVER, WORKER, name_process
from phalanx.runtime.os.process_tree import keep_descendants
from phalanx.runtime.os.shields import Shield, begin_shielded, begun_by, reported_pid
from phalanx.runtime.os.system import say
from phalanx.runtime.os.visible_devices import shown_devices
from phalanx.runtime.worker import blas_threads

MAX_LINE_BYTES = 64 << 10
"""The length in bytes above which a line of a worker's output is cut into several lines."""
UNFINISHED_S = 0.25
"""Seconds after which the beginning of an unfinished line is shown if no more output comes."""
BAR_S = 2.0
"""Seconds between displayed states of a line that is overwritten, such as a progress bar."""
NAME_MARK = "\x1e"
"""The first character of a line that gives a name to the lines after it: the name of the task that
printed them.
"""


def run(
    sock: socket.socket, session: sessions.Session, preload: list[str], lifeline: int
) -> NoReturn:
    """Import the modules `preload`, and serve the node until its socket closes. This function never
    returns. `lifeline`: see `shields`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    name_process(FORK_SERVER)
    for module in preload:
        try:
            __import__(module)
        except Exception as error:  # the task that needs the module gets the error
            say(f"{module} could not be imported beforehand: {error}", level=WARNING)
    # This is prepared once for all children.
    import phalanx.runtime.worker.actor_host
    import phalanx.runtime.worker.process  # noqa: F401

    keep_freed_memory()
    blas_threads.inherited.prepare()
    decode_body(encode_body([]))
    server = WorkerForkServer(sock, session, lifeline)
    gc.freeze()  # imported modules stay, and are shared with the children
    gc.enable()
    server.serve()
    os._exit(0)


class _Forking:
    """A worker whose shield was forked and which has not begun yet."""

    def __init__(self, shield: Shield, report: int, output: tuple[int, int]) -> None:
        self.shield = shield
        self.report = report
        """The descriptor of the shield's report."""
        self.pid: int | None = None
        """The worker's pid or the negative number of an error, once the report was read."""
        self.output = output
        """The ends of the pipes for the worker's output and errors."""
        self.signals: list[SendSignal] = []
        """The signals that must be sent to the worker once it has begun."""

    def known_pid(self) -> int:
        """Return the worker's pid if the shield has reported it; 0 if it has not, or if there is no
        worker.
        """
        if self.pid is None and wait_for(self.report, select.POLLIN, 0):
            self.pid = reported_pid(self.report)
        return max(self.pid or 0, 0)


class _Pipe:
    """The pipe of a worker's standard output or error."""

    def __init__(self, fd: int, pid: int, is_error: bool) -> None:
        self.fd = fd
        self.pid = pid
        self.is_error = is_error
        self.partial = b""
        """The beginning of a line whose end has not arrived yet."""
        self.partial_since = 0.0
        self.is_bar = False
        """Whether the last output returned to the beginning of the line, as that of a progress bar
        does.
        """
        self.told_at = 0.0
        self.name = ""


def last_state(line: bytes) -> bytes:
    """Return what a terminal shows of a line that carriage returns overwrite.

    A carriage return at the end stays, because the next output overwrites the line.
    """
    body = line.rstrip(b"\r")
    return body.rpartition(b"\r")[2] + line[len(body) : len(body) + 1]


class WorkerForkServer(ForkServer):
    """The fork server of a node: it forks workers in addition to commands."""

    def __init__(
        self, sock: socket.socket, session: sessions.Session, lifeline: int = -1, node: int = 0
    ) -> None:
        super().__init__(sock, session, lifeline, node)
        self._session_of_workers = session
        self._shown_devices = shown_devices(os.environ)
        self._forking: dict[bytes, _Forking] = {}
        self._pipes: dict[int, _Pipe] = {}
        """The open pipes by descriptor."""
        self._in_images: set[bytes] = set()
        """The workers whose environment is an image."""
        self._removal = Removal()
        self._unfinished: set[_Pipe] = set()
        """The pipes from which the beginning of a line has arrived."""

    def on_message(self, message: msgspec.Struct) -> None:
        """Handle an order of the node: fork a worker, read output, signal a worker that is being
        forked, or an order about commands.
        """
        match message:
            case Fork():
                self._fork(message.worker, message.variables)
            case ReadOutput():
                self._read_all_output()
            case SendSignal() if message.process in self._forking:
                self._forking[message.process].signals.append(message)
            case _:
                super().on_message(message)

    def _fork(self, worker: bytes, environment: dict[str, str]) -> None:
        opened: list[int] = []
        try:
            for _ in range(2):
                opened += os.pipe()
            shield, told = begin_shielded(self.lifeline, (opened[0], opened[2]))
        except OSError as error:
            for fd in opened:
                os.close(fd)
            self.report_failure(worker, error)
            return
        if is_image(environment.get(ENVIRONMENT, "")):
            self._in_images.add(worker)
        out_read, out_write, err_read, err_write = opened
        if told < 0:
            from phalanx.runtime.worker.ending import exit_after

            exit_after(partial(self._become_worker, worker, environment, out_write, err_write))
        os.close(out_write)
        os.close(err_write)
        self._forking[worker] = _Forking(shield, told, (out_read, err_read))
        self.read_from(told, partial(self._forked, worker))

    def _forked(self, worker: bytes) -> None:
        """Watch a worker that was forked. Its shield reports its pid."""
        forking = self._forking.pop(worker)
        report = reported_pid(forking.report) if forking.pid is None else forking.pid
        self.stop_reading(forking.report)
        try:
            pid, shield = begun_by(forking.shield, report)
        except OSError as error:
            for fd in forking.output:
                os.close(fd)
            self.report_failure(worker, error)
            return
        for fd in forking.output:
            os.set_blocking(fd, False)
            self.read_output_of(pid, fd, is_error=fd == forking.output[1])
        child = Child(worker, pid, is_command=False, shield=shield)
        try:
            self.adopt(child)
        except OSError as error:
            for pipe in self.pipes_of(pid):
                self._close(pipe)
            self.give_up(child, error)
            return
        self.node.post(Forked(worker, pid, shield.pid, *forking.output))
        for message in forking.signals:
            self.on_message(message)

    def _become_worker(self, worker: bytes, environment: dict[str, str], out: int, err: int) -> int:
        """Be the worker in a child of this process. Returns the exit code."""
        keep_descendants()
        name_process(WORKER)
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for fd in (out, err, null):
            if fd > 2:
                os.close(fd)
        self.close_in_child()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        leave_our_path()
        leave_our_limits()
        for name, value in environment.items():
            os.environ[native(name)] = expanded(native(value))
        from phalanx.runtime.worker import process as worker_process

        session, devices = self._session_of_workers, self._shown_devices
        failure = ""
        if ENVIRONMENT in os.environ or PACKAGES in os.environ:
            from phalanx.runtime.worker.environments import enter

            failure = enter(worker, session, devices)
        return worker_process.main(worker, session, devices, failure)

    def new_shields(self) -> set[int]:
        """Return the shields of work that is being started, including those of workers."""
        return super().new_shields() | {one.shield.pid for one in self._forking.values()}

    def being_started(self) -> set[int]:
        """Return the processes of work that is being started, including workers.

        If a worker's shield has ended, the worker is a child of this process. That can happen
        before the report of its start is read. Such a worker must not count as an orphan.
        """
        return super().being_started() | {one.known_pid() for one in self._forking.values()}

    def others(self) -> set[int]:
        """Return the children that are neither work nor left behind by work."""
        return super().others() | self._removal.pids

    def end_everything(self) -> None:
        """End all children, including children that are being forked. Then remove the containers
        that workers have left.
        """
        for forking in self._forking.values():
            forking.shield.end()
        super().end_everything()
        if self._in_images:
            self._removal.want()
            self._removal.look()

    # ---- output ------------------------------------------------------------------------------

    def read_output_of(self, pid: int, fd: int, is_error: bool) -> None:
        """Read a worker's output, or its errors, from this descriptor from now on."""
        pipe = self._pipes[fd] = _Pipe(fd, pid, is_error)
        self.read_from(fd, partial(self._read_output, pipe))

    def pipes_of(self, pid: int) -> list[_Pipe]:
        """Return the open pipes of a worker."""
        return [one for one in self._pipes.values() if one.pid == pid]

    def _read_all_output(self) -> None:
        """Read and pass on what workers have printed so far. Report when that is done."""
        for fd, pipe in list(self._pipes.items()):
            while fd in self._pipes and wait_for(fd, select.POLLIN, 0):
                self._read_output(pipe)
        self.node.post(OutputRead())

    def _read_output(self, pipe: _Pipe) -> None:
        try:
            data = os.read(pipe.fd, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._close(pipe)
            self._pass_on_partial(pipe)
            return
        *lines, partial = (pipe.partial + data).split(b"\n")
        for line in lines:
            self._line(pipe, last_state(line).rstrip(b"\r"))
        pipe.partial = last_state(partial)
        pipe.is_bar = b"\r" in partial
        if len(pipe.partial) > MAX_LINE_BYTES:
            self._pass_on_partial(pipe)
        elif pipe.partial:
            pipe.partial_since = time.monotonic()
            self._unfinished.add(pipe)
        else:
            self._unfinished.discard(pipe)

    def _pass_on_partial(self, pipe: _Pipe) -> None:
        if told := pipe.partial.rstrip(b"\r"):
            self._line(pipe, told)
            pipe.told_at = time.monotonic()
        pipe.partial = b""
        self._unfinished.discard(pipe)

    def patience_s(self) -> float | None:
        """Return the seconds until the server must look again; None if no look is due."""
        patience_s = super().patience_s()
        if not self._unfinished:
            return patience_s
        return UNFINISHED_S if patience_s is None else min(patience_s, UNFINISHED_S)

    def after_round(self) -> None:
        """Do what is due after a round of events: remove containers that workers have left, watch
        workers that have begun, and pass on the beginnings of lines that have not grown for some
        time.
        """
        super().after_round()
        self._removal.look()
        for worker, forking in list(self._forking.items()):
            if forking.pid is not None:  # the event for its report may not come again
                self._forked(worker)
        if self._unfinished:
            now = time.monotonic()
            for pipe in list(self._unfinished):
                is_time = pipe.is_bar and now - pipe.told_at >= BAR_S
                if is_time or now - pipe.partial_since >= UNFINISHED_S:
                    self._pass_on_partial(pipe)

    def _line(self, pipe: _Pipe, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace")
        if line.startswith(NAME_MARK):
            pipe.name = line[1:]
            return
        self.node.post(LogLine(pipe.pid, pipe.name, line, pipe.is_error))

    def before_end(self, child: Child) -> None:
        """Read the rest of a worker's output before the worker's end is reported. If the worker ran
        in an image, request the removal of the container that it may have left.
        """
        super().before_end(child)
        if child.process in self._in_images:
            self._in_images.remove(child.process)
            self._removal.want()
        for pipe in self.pipes_of(child.pid):
            while pipe.fd in self._pipes and wait_for(pipe.fd, select.POLLIN, 0):
                self._read_output(pipe)
            # A process that the worker started still has the pipe open, but its output is no longer
            # read.
            if pipe.fd in self._pipes:
                self._close(pipe)
                self._pass_on_partial(pipe)

    def _close(self, pipe: _Pipe) -> None:
        del self._pipes[pipe.fd]
        self.stop_reading(pipe.fd)
