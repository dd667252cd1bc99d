"""Starts the commands of jobs, by a fork that has as little copied as can be.

After `os.fork` Python and its modules put themselves right in the child. That, and all else that
Python does there, writes to hundreds of pages of a large process, each of which the kernel copies
first: for a child that lets go of them at once, as it becomes another program. So here the child
makes calls of the kernel and nothing else, with arguments that lay ready before. It never lets go
of the interpreter's lock, which a thread may have asked for that is not there any more. Only where
it could not become the program, Python puts itself right and says why.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Mapping, Sequence

from phalanx.engines.processes.below import open_below
from phalanx.engines.processes.commands import command_variables, exec_command
from phalanx.engines.processes.process_tree import end_with_parent, keep_descendants
from phalanx.model.exit_codes import NOT_STARTED

_c = ctypes.PyDLL(None, use_errno=True)
_fork, _write, _setsid, _dup2, _chdir, _execve = (
    *(_c.fork, _c.write, _c.setsid, _c.dup2, _c.chdir, _c.execve),
)
_signal = _c.signal
_signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_SIGINT, _SIGPIPE = int(signal.SIGINT), int(signal.SIGPIPE)

_Strings = ctypes.Array[ctypes.c_char_p]


def start_command(
    argv: Sequence[str],
    variables: Mapping[str, str],
    directory: str,
    log: str,
    entrance: int = -1,
) -> int:
    """Start `argv` in a session of its own, its output appended to the file `log`. Its pid.

    `entrance`: to its control group, if it has one. Raises OSError where there is no process for
    it, or it could not be given what it is to have; what goes wrong later stands in the file.
    """
    given = command_variables(variables)
    where, *paths = _encoded([directory, *_paths(argv[0], given)])
    words = _strings(_encoded(argv))
    environment = _strings(_encoded([f"{name}={value}" for name, value in given.items()]))
    parent = os.getpid()
    out = _open_log(log)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            pid: int = _fork()
            if pid == 0:
                try:
                    end_with_parent(parent)
                    _become(where, paths, words, environment, entrance, null, out)
                    _put_python_right()
                    exec_command(argv, variables, directory)
                finally:
                    os._exit(NOT_STARTED)
            if pid < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            return pid
        finally:
            os.close(null)
    finally:
        os.close(out)


def _become(
    where: bytes,
    paths: Sequence[bytes],
    words: _Strings,
    environment: _Strings,
    entrance: int,
    null: int,
    out: int,
) -> None:
    """Returns only if it is not possible."""
    keep_descendants()
    _write(entrance, b"0", 1)  # a group that is gone is done without
    _setsid()
    _dup2(null, 0)
    _dup2(out, 1)
    _dup2(out, 2)
    _signal(_SIGINT, None)
    _signal(_SIGPIPE, None)
    if _chdir(where) == 0:
        for path in paths:
            _execve(path, words, environment)


def _put_python_right() -> None:
    """As though this process had been forked just now: the second call ends what the first one
    begins, and from Python 3.13 on it relies on that."""
    ctypes.pythonapi.PyOS_BeforeFork()
    ctypes.pythonapi.PyOS_AfterFork_Child()


def _paths(name: str, variables: Mapping[str, str]) -> list[str]:
    """Where a command's file may be, in the order of its own PATH."""
    if os.path.dirname(name):
        return [name]
    path = variables.get("PATH", os.defpath)
    return [os.path.join(directory, name) for directory in path.split(os.pathsep)]


def _encoded(texts: Sequence[str]) -> list[bytes]:
    if "\0" in "".join(texts):  # C would take it for the end
        raise OSError(errno.EINVAL, "there is a null byte in its words or its variables")
    return [os.fsencode(text) for text in texts]


def _strings(texts: Sequence[bytes]) -> _Strings:
    """As C has them, with nothing after the last."""
    return (ctypes.c_char_p * (len(texts) + 1))(*texts)


def _open_log(log: str) -> int:
    """Nobody waits here: a pipe may lie there that nobody reads."""
    out = open_below(*os.path.split(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK)
    os.set_blocking(out, True)
    return out
