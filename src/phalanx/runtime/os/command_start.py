"""Starts the commands of jobs, by a child that makes kernel calls and nothing else.

Each command has a shield as its parent. If the child could not become the program, or if the C
library lacks the calls, a fork of this process tries again in Python, which can report the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from phalanx.model.exit_codes import NOT_STARTED
from phalanx.runtime.os.below import open_below
from phalanx.runtime.os.child_calls import Call, ChildCalls, address_of, function
from phalanx.runtime.os.commands import command_variables, exec_command
from phalanx.runtime.os.exit_files import open_exit_file
from phalanx.runtime.os.process_tree import keep_descendants, tie_to_parent
from phalanx.runtime.os.shields import Shield, fork_shielded, is_possible, reap, start_shielded

_REPORT_MS = 1000
_NUMBER_BYTES = 4
_Strings = ctypes.Array[ctypes.c_char_p]


class _Ends(NamedTuple):
    """The descriptors of a command's control group (-1: none), input, output and exit file (-1:
    none).
    """

    entrance: int
    null: int
    out: int
    exit_file: int


class CommandStart:
    """Starts commands, from one thread."""

    def __init__(self, lifeline: int) -> None:
        """`lifeline`: one end of a pipe. When the other end is closed, all commands end."""
        self._lifeline = lifeline
        self._calls: ChildCalls | None = None
        with contextlib.suppress(OSError):
            calls = ChildCalls()
            self._calls = calls if is_possible() else None
        self.shield = ctypes.c_int(0)
        """The id of the shield that was started last."""
        self.opened: set[int] = set()
        """Descriptors that only this object uses. A process that is forked meanwhile closes
        them.
        """

    def start(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        directory: str,
        log: str,
        entrance: Callable[[], int],
        pid: ctypes.c_int,
        umask: int,
        exit_file: str = "",
    ) -> Shield:
        """Start `argv` in a Unix session of its own, with its output appended to the file `log`.

        Returns the shield, which is the parent of the command.

        `umask` is the mask of the files that the command makes. `pid` is set to the command's id.
        Until this function returns, `pid` may hold the id of a child that fails to become the
        command. `entrance` opens the command's control group, and returns -1 if there is none.
        `exit_file`: the path of the exit file of a kept command (see `shields`); "" for a command
        that ends with the node. Raises OSError if there is no process or no descriptor for the
        command; later errors are written to `log`.
        """
        given = command_variables(variables)
        self.shield = ctypes.c_int(0)  # perhaps the previous shield has not read its own yet
        paths = _encoded(_paths(argv[0], given))
        words = _strings(_encoded(argv))
        environment = _strings(_encoded([f"{name}={value}" for name, value in given.items()]))
        with (
            self._use(_open_log(log)) as out,
            self._use(os.open(os.devnull, os.O_RDONLY)) as null,
            self._use(entrance()) as group,
            self._use(open_exit_file(exit_file) if exit_file else -1) as exits,
        ):
            ends = _Ends(group, null, out, exits)
            with contextlib.suppress(OSError):
                # A directory that can be seen but not entered has no such file.
                where = os.open(os.path.join(directory, os.curdir), os.O_PATH)
                with self._use(where):
                    shield = self._start_child(paths, words, environment, where, ends, pid, umask)
                    if shield is not None:
                        return shield
            pid.value, shield = self._fork(argv, variables, directory, ends, umask)
            return shield

    def _fork(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        directory: str,
        ends: _Ends,
        umask: int,
    ) -> tuple[int, Shield]:
        """Start the command by a fork in Python, which writes errors to the log.

        Raises OSError if the child could not become the program because processes, memory or
        descriptors had run out.
        """
        ends_of_pipe = os.pipe()
        with self._use(ends_of_pipe[0]) as read:
            with self._use(ends_of_pipe[1]) as write:
                pid, shield = self._fork_child(argv, variables, directory, ends, umask, write)
                self.shield.value = shield.pid
            number = _reported_errno(read)
        if number:
            shield.end()
            reap(pid)
            raise OSError(number, os.strerror(number))
        return pid, shield

    def _start_child(
        self,
        paths: Sequence[bytes],
        words: _Strings,
        environment: _Strings,
        where: int,
        ends: _Ends,
        pid: ctypes.c_int,
        umask: int,
    ) -> Shield | None:
        """Start a child that becomes the first of these files that can be executed.

        Returns the child's shield; None if no file could be executed.
        """
        if self._calls is None:
            return None
        given = address_of(words), address_of(environment)
        files = [ctypes.c_char_p(path) for path in paths]
        zero, has_failed = ctypes.c_char_p(b"0"), ctypes.create_string_buffer(1)
        calls: list[Call] = [
            *tie_to_parent(),
            # This has no effect if the group does not exist any more.
            (function("write"), (ends.entrance, address_of(zero), 1)),
            (function("setsid"), ()),
            (function("dup2"), (ends.null, 0)),
            (function("dup2"), (ends.out, 1)),
            (function("dup2"), (ends.out, 2)),
            (function("signal"), (int(signal.SIGINT), int(signal.SIG_DFL))),
            (function("signal"), (int(signal.SIGPIPE), int(signal.SIG_DFL))),
            (function("umask"), (umask,)),
            (function("fchdir"), (where,)),
            *[(function("execve"), (address_of(file), *given)) for file in files],
            (function("memset"), (address_of(has_failed), 1, 1)),
            (function("_exit"), (NOT_STARTED,)),
        ]
        shield = start_shielded(
            self._calls, calls, self._lifeline, pid, self.shield, ends.exit_file
        )
        if has_failed.raw == b"\0":
            return shield
        gone, pid.value = pid.value, 0
        shield.end()
        reap(gone)
        return None

    def _fork_child(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        directory: str,
        ends: _Ends,
        umask: int,
        tell: int,
    ) -> tuple[int, Shield]:
        """Start the command by a fork, which writes errors to the log.

        `tell`: the descriptor to which the child writes the number of an error if processes, memory
        or descriptors had run out.
        """
        if ends.exit_file >= 0:
            os.ftruncate(ends.exit_file, 0)
        pid, shield = fork_shielded(self._lifeline, exit_file=ends.exit_file)
        if pid == 0:
            try:
                keep_descendants()
                # the group no longer exists, or the command has none
                with contextlib.suppress(OSError):
                    os.write(ends.entrance, b"0")
                os.setsid()
                for to, end in enumerate((ends.null, ends.out, ends.out)):
                    os.dup2(end, to)
                for number in (signal.SIGINT, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                os.umask(umask)
                exec_command(argv, variables, directory, tell)
            finally:
                os._exit(NOT_STARTED)
        return pid, shield

    @contextlib.contextmanager
    def _use(self, fd: int) -> Iterator[int]:
        """Note that a descriptor is in use here, and close it at the end of the block."""
        self.opened.add(fd)
        try:
            yield fd
        finally:
            self.opened.discard(fd)
            if fd >= 0:
                os.close(fd)


def _reported_errno(read: int) -> int:
    """Return the number of the error that a child reported before it ended; 0 if it has become a
    program, or may still become one, as on a slow file server.
    """
    poll = select.poll()
    poll.register(read, select.POLLIN)
    data = os.read(read, _NUMBER_BYTES) if poll.poll(_REPORT_MS) else b""
    return int.from_bytes(data, "little")


def _paths(name: str, variables: Mapping[str, str]) -> list[str]:
    """Return the paths at which a command's program may be, in the order of the command's own
    PATH.
    """
    if os.path.dirname(name):
        return [name]
    path = variables.get("PATH", os.defpath)
    return [os.path.join(directory, name) for directory in path.split(os.pathsep)]


def _encoded(texts: Sequence[str]) -> list[bytes]:
    if "\0" in "".join(texts):  # in C, this byte would end the text
        raise OSError(errno.EINVAL, "there is a null byte in the command's words or variables")
    return os.fsencode("\0".join(texts)).split(b"\0") if texts else []


def _strings(texts: Sequence[bytes]) -> _Strings:
    """Return an array of C strings that ends with NULL."""
    return (ctypes.c_char_p * (len(texts) + 1))(*texts)


def _open_log(log: str) -> int:
    """Open the log without waiting. (A pipe without a reader may be at its path.)"""
    out = open_below(*os.path.split(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
    os.set_blocking(out, True)
    return out
