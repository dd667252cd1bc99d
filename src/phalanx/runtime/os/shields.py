"""Shields: each worker and each command has a parent of its own, which does nothing else.

Programs can kill their parent: `kill -9 $PPID` in a shell, `os.kill(os.getppid(), 9)` in a task. A
parent of all work would take all of it along, so a shield stands in between. The kernel ends the
shield's child with it, and nothing else: work that kills its parent ends itself, and is known to
have done so.

A shield waits for the end of the node, at a pipe whose other end only the node has, the *lifeline*.
So a shield outlives the fork server, and its child does, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from phalanx.runtime.os.child_calls import Call, Chain, ChildCalls, address_of, function
from phalanx.runtime.os.process_names import SHIELD, call_for_name, name_process
from phalanx.runtime.os.process_tree import end_with_parent

_CLOSE_RANGE = 436
"""The number of the system call close_range(2), which is the same on all machines."""
_LAST_FD = 0xFFFF_FFFF
_NUMBER_BYTES = 4
_BYTE = ctypes.c_char_p(b"0")
_READ_INTO = ctypes.create_string_buffer(1)


class Shield(NamedTuple):
    """The parent of one process."""

    pid: int
    memory: Chain | None = None
    """The part of this process's memory that it uses."""

    def is_killed(self) -> bool:
        """Whether it has ended before its time: its child has killed it, most likely."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is not None and ended.si_status == signal.SIGKILL

    def end(self) -> None:
        """End it. Its child ends with it, and is this process's child when this returns.

        This process must be a subreaper.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def can_close_all() -> bool:
    """Whether the kernel has the call with which a shield closes what it does not need."""
    return bool(
        function("syscall")(*map(ctypes.c_long, (_CLOSE_RANGE, _LAST_FD, _LAST_FD, 0))) == 0
    )


def start_shielded(
    children: ChildCalls,
    calls: Sequence[Call],
    lifeline: int,
    pid: ctypes.c_int,
    shield: ctypes.c_int,
) -> Shield:
    """Start a child that makes these calls, below a shield that costs next to nothing.

    The calls must end with another program or an end, and this waits for that. `pid` is the child's
    as soon as it exists, and `shield` the shield's. Raises OSError when there can be no more
    processes.
    """
    read, write = os.pipe()
    own: list[Call] = [
        (function("setsid"), ()),
        call_for_name(SHIELD),
        children.call_to_run(calls, pid),
        (function("write"), (write, address_of(_BYTE), 1)),
        (function("dup2"), (lifeline, 0)),
        (function("syscall"), (_CLOSE_RANGE, 1, _LAST_FD, 0)),
        (function("read"), (0, ctypes.addressof(_READ_INTO), 1)),
        (function("_exit"), (0,)),
    ]
    memory = Chain(len(own))
    with os.fdopen(read, "rb") as told:
        try:
            children.run_along(memory, own, shield)
        finally:
            os.close(write)
        made = Shield(shield.value, memory)
        if told.read(1) and pid.value:
            return made
    made.end()
    gone, pid.value = pid.value, 0
    if gone:  # somebody has killed the shield before it was the parent of a program
        with contextlib.suppress(ProcessLookupError):
            os.kill(gone, signal.SIGKILL)
        reap(gone)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def reap(pid: int) -> None:
    """Wait for the end of a child that has lost its shield; others may have reaped it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def fork_shielded(lifeline: int, kept: Iterable[int] = ()) -> tuple[int, Shield]:
    """Fork a child below a shield; return its pid, which is 0 in the child.

    The shield keeps the descriptors `kept` open. In the child, the shield is the process's parent.
    Raises OSError when there can be no more processes.
    """
    read, write = os.pipe()
    try:
        shield = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        raise
    if shield:
        os.close(write)
        return _told_by(Shield(shield), read)
    os.close(read)
    parent, pid = os.getpid(), 0
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or errno.EAGAIN)
    if pid:
        _stand(pid, write, lifeline, kept)
    os.close(write)
    end_with_parent(parent)
    return 0, Shield(parent)


def _told_by(shield: Shield, read: int) -> tuple[int, Shield]:
    with os.fdopen(read, "rb") as told:
        pid = int.from_bytes(told.read(_NUMBER_BYTES), "little", signed=True)
    if pid > 0:
        return pid, shield
    shield.end()
    number = -pid or errno.EAGAIN
    raise OSError(number, os.strerror(number))


def _stand(pid: int, write: int, lifeline: int, kept: Iterable[int]) -> NoReturn:
    """Be a shield until the node is gone."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.setsid()
        name_process(SHIELD)
        os.write(write, pid.to_bytes(_NUMBER_BYTES, "little", signed=True))
        first = 0
        for fd in sorted({lifeline, *kept}):
            os.closerange(first, fd)
            first = fd + 1
        os.closerange(first, _LAST_FD >> 1)
        if pid > 0:
            os.read(lifeline, 1)
    finally:
        os._exit(0)
