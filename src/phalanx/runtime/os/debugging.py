"""`breakpoint()` in a task or an actor waits until a user connects with `phalanx debug`.

The debugger is Python's own. It uses a socket in the session's directory, which only this user can
enter, because anybody who reached it over the network could run any code here.
"""

from __future__ import annotations

import contextlib
import os
import pdb  # noqa: T100  (this is the debugger)
import select
import socket
import sys
import time
from types import FrameType
from typing import Any

import msgspec

from phalanx.model.raw_bytes import encoded
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.peer_user import same_user
from phalanx.runtime.os.session import Session

_PREFIX, _SOCKET, _ROW = "debug-", ".sock", ".json"
_CHUNK = 1 << 16


class Breakpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A process that waits at a breakpoint. `since` is in seconds since the epoch."""

    pid: int
    name: str
    file: str
    line: int
    since: float
    socket: str


class _Debugger(pdb.Pdb):
    """A debugger that reads commands from a socket. When the user leaves, the program continues."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        # There are two file objects, because a single one would lose what it has read ahead when it
        # writes.
        typed, shown = connection.makefile("r"), connection.makefile("w")
        super().__init__(stdin=typed, stdout=shown, nosigint=True, readrc=False)
        self.use_rawinput = False

    def do_continue(self, arg: str) -> bool | None:
        """Continue until the next breakpoint. If the user has set none, close the connection."""
        done = super().do_continue(arg)
        if not self.breaks:
            self._hang_up()
        return done

    do_c = do_cont = do_continue

    def do_quit(self, arg: str) -> bool | None:
        """End the running code, with an error."""
        done = super().do_quit(arg)
        self._hang_up()
        return done

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> bool | None:
        """Continue without breakpoints: the user has left."""
        self.clear_all_breaks()
        return self.do_continue(arg)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.stdout.flush()
            self._connection.shutdown(socket.SHUT_RDWR)


def wait_for_debugger(session: Session, name: str, frame: FrameType) -> None:
    """Stop at `frame` until a user debugs this process, then obey the user's commands."""
    pid = os.getpid()
    base = os.path.join(session.directory, f"{_PREFIX}{pid}")
    row = Breakpoint(
        pid=pid,
        name=name,
        file=frame.f_code.co_filename,
        line=frame.f_lineno,
        since=time.time(),
        socket=base + _SOCKET,
    )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(row.socket)
        listener.bind(row.socket)
        listener.listen(1)
        with open(os.open(base + _ROW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(encoded(msgspec.json.encode, row))
        sys.stderr.write(
            f"{name} waits at {row.file}:{row.line}. On this machine: phalanx debug {pid}\n"
        )
        sys.stderr.flush()
        connection, _ = listener.accept()
    finally:
        listener.close()
        for path in (row.socket, base + _ROW):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    same_user(connection)
    _Debugger(connection).set_trace(frame)


def waiting(temp_dir: str | None = None) -> list[Breakpoint]:
    """Return this user's processes that wait at breakpoints on this machine, longest wait first."""
    root = sessions.runtime_root(temp_dir)
    found = []
    for name in sorted(os.listdir(root)):
        directory = os.path.join(root, name)
        files = os.listdir(directory) if os.path.isdir(directory) else []
        for file in files:
            if not (file.startswith(_PREFIX) and file.endswith(_ROW)):
                continue
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                with open(os.path.join(directory, file), "rb") as opened:
                    row = msgspec.json.decode(opened.read(), type=Breakpoint)
                if os.path.exists(f"/proc/{row.pid}"):
                    found.append(row)
    return sorted(found, key=lambda row: (row.since, row.pid))


def attach(row: Breakpoint, typed: Any, shown: Any) -> None:
    """Send what the user types to the debugger, and show its answers, until one side ends.

    `typed` and `shown` are binary files with descriptors. Raises OSError if no process waits.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(row.socket)
        same_user(connection)
        sources = [connection, typed]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if connection in ready:
                data = connection.recv(_CHUNK)
                if not data:
                    return
                shown.write(data)
                shown.flush()
            if typed in ready:
                line = os.read(typed.fileno(), _CHUNK)
                if line:
                    connection.sendall(line)
                else:  # the user has left, so the program continues
                    connection.shutdown(socket.SHUT_WR)
                    sources = [connection]
