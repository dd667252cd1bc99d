"""Connects this process's terminal or pipes to the input and output of remote programs."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from phalanx.errors import ProtocolError
from phalanx.protocol.stream_messages import Begin, Ended, Printed, Resized, Signalled, Typed
from phalanx.runtime.os.connection import Connection

LOST = 255
"""The exit code of a program whose connection was lost before it ended."""
_CHUNK = 1 << 15
_IN = 0
_AGAIN = 2
"""The number of times that Ctrl-C is passed on to the programs. The next Ctrl-C ends this
command.
"""


class Program(msgspec.Struct, eq=False):
    """A remote program. `label`, if any, is printed before each line of its output."""

    connection: Connection
    label: bytes = b""
    out: int = 1
    err: int = 2
    """The descriptors (`out` and `err`) to which the program's standard output and standard error
    are written.
    """
    code: int | None = None
    partial: list[bytes] = []


class Input(msgspec.Struct, frozen=True):
    """The source of the programs' input, and the programs that get it. `fd`: the descriptor of the
    source; -1: no input. `to`: the indices of the programs that get the input; None: all programs.
    """

    fd: int = _IN
    to: frozenset[int] | None = frozenset({0})


_TYPED_HERE = Input()


def follow(
    programs: Sequence[Program],
    is_terminal: bool,
    given: Input = _TYPED_HERE,
    ends_all: bool = False,
    asks_to_end: bool = False,
) -> list[int]:
    """Pass input and output on until all programs have ended. Returns their exit codes.

    `is_terminal`: the first program has a terminal of the size of this process's terminal, and gets
    each key unchanged, including Ctrl-C and Ctrl-Z. Without a terminal, Ctrl-C sends SIGINT to all
    programs. This terminal is always restored at the end. `ends_all`: when a program ends with a
    code other than 0, all other programs get SIGTERM. `asks_to_end`: a first SIGTERM is passed on
    to all programs, and this function goes on until they have ended. A second SIGTERM ends this
    process.
    """
    with _raw_terminal(is_terminal), _Signals(asks_to_end) as signals:
        _Following(programs, is_terminal, given, ends_all, signals).run()
    return [LOST if one.code is None else one.code for one in programs]


class _Signals:
    """Signal handlers that turn signals into bytes of a pipe. A signal that ends this process
    raises SystemExit.
    """

    def __init__(self, asks_to_end: bool) -> None:
        """Install the handlers. `asks_to_end`: the first SIGTERM also becomes a byte, and does not
        end this process.
        """
        self._asks_to_end = asks_to_end

    def __enter__(self) -> _Signals:
        self.reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        quiet = {signal.SIGWINCH: _nothing, signal.SIGINT: _nothing}
        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        ending: dict[signal.Signals, Any] = dict.fromkeys(numbers, _end)
        if self._asks_to_end:
            ending[signal.SIGTERM] = _end_by_the_next
        self._before = {n: signal.signal(n, what) for n, what in {**quiet, **ending}.items()}
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, what in self._before.items():
            signal.signal(number, what)
        os.close(self.reader)
        os.close(self._writer)


def _nothing(number: int, _: Any) -> None:
    """Do nothing: the signal is handled when its byte is read from the pipe."""


def _end(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


def _end_by_the_next(number: int, _: Any) -> None:
    signal.signal(number, _end)


@contextlib.contextmanager
def _raw_terminal(wanted: bool) -> Iterator[None]:
    """Put this terminal into raw mode: each key is passed on unchanged and not echoed."""
    if not (wanted and os.isatty(_IN)):
        yield
        return
    before = termios.tcgetattr(_IN)
    try:
        tty.setraw(_IN)
        yield
    finally:
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # this process may be in the background now
        termios.tcsetattr(_IN, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def begin_of(is_terminal: bool) -> Begin:
    """Return the message that starts a program. The message has the size and kind of this
    terminal.
    """
    if not is_terminal:
        return Begin()
    size = shutil.get_terminal_size()
    if os.isatty(_IN):
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(_IN)
    return Begin(size.lines, size.columns, os.environ.get("TERM", ""))


class _Following:
    def __init__(
        self,
        programs: Sequence[Program],
        is_terminal: bool,
        given: Input,
        ends_all: bool,
        signals: _Signals,
    ) -> None:
        self._programs = {one.connection.fileno: one for one in programs}
        self._is_terminal = is_terminal
        self._ends_all = ends_all
        self._signals = signals
        self._input = given.fd
        self._readers: list[Program] = []
        """The running programs that get the input."""
        self._interrupts = 0
        for place, one in enumerate(programs):
            one.connection.send(begin_of(is_terminal))
            if given.fd >= 0 and (given.to is None or place in given.to):
                self._readers.append(one)
            else:
                one.connection.send(Typed(b""))
        self._first = programs[0]

    def run(self) -> None:
        while self._programs:
            poll = select.poll()
            poll.register(self._signals.reader, select.POLLIN)
            for fd, one in self._programs.items():
                writes = select.POLLOUT if one.connection.has_backlog else 0
                poll.register(fd, select.POLLIN | writes)
            if self._readers and not any(one.connection.has_backlog for one in self._readers):
                poll.register(self._input, select.POLLIN)
            for fd, mask in poll.poll():
                if fd == self._signals.reader:
                    self._on_signals(os.read(fd, _CHUNK))
                elif fd in self._programs:
                    self._on_program(self._programs[fd], mask)
                elif fd == self._input:
                    self._on_input()

    def _on_signals(self, numbers: bytes) -> None:
        if signal.SIGWINCH in numbers and self._is_terminal:
            begin = begin_of(True)
            self._first.connection.send(Resized(begin.rows, begin.columns))
        if signal.SIGINT in numbers:
            self._interrupts += 1
            if self._interrupts > _AGAIN:
                raise KeyboardInterrupt
            for one in self._programs.values():
                one.connection.send(Signalled(int(signal.SIGINT)))
        if signal.SIGTERM in numbers:
            for one in self._programs.values():
                one.connection.send(Signalled(int(signal.SIGTERM)))

    def _on_input(self) -> None:
        try:
            data = os.read(self._input, _CHUNK)
        except OSError:  # the terminal is gone, or this process is in the background
            data = b""
        for one in self._readers:
            one.connection.send(Typed(data))
        if not data:
            self._readers.clear()

    def _on_program(self, one: Program, mask: int) -> None:
        if mask & select.POLLOUT:
            one.connection.drain()
        if not mask & ~select.POLLOUT:
            return
        try:
            messages = one.connection.receive()
        except ProtocolError:
            messages = None
        for message in messages or ():
            if isinstance(message, Printed):
                _show(one, message)
            elif isinstance(message, Ended):
                one.code = message.code
        if messages is None or one.code is not None:
            if self._ends_all and one.code != 0:
                self._ends_all = False
                for other in self._programs.values():
                    other.connection.send(Signalled(int(signal.SIGTERM)))
            if one.partial:
                _write(one.out, one.label + b"".join(one.partial) + b"\n")
            del self._programs[one.connection.fileno]
            one.connection.close()
            if one in self._readers:
                self._readers.remove(one)


def _show(one: Program, message: Printed) -> None:
    """Print output unchanged or, if the program has a label, in whole lines. An unfinished line is
    kept until its end arrives.
    """
    fd = one.err if message.is_error else one.out
    if not one.label:
        _write(fd, message.data)
        return
    whole, newline, rest = message.data.rpartition(b"\n")
    if newline:
        lines = b"".join((*one.partial, whole)).split(b"\n")
        one.partial.clear()
        _write(fd, b"".join(one.label + line + b"\n" for line in lines))
    if rest:
        one.partial.append(rest)


def _write(fd: int, data: bytes) -> None:
    sys.stdout.flush()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            select.select([], [fd], [])
