"""Shields: each worker and each command has a parent process of its own, which does nothing else.

Programs can kill their parent: `kill -9 $PPID` in a shell, `os.kill(os.getppid(), 9)` in a task. If
all work had the same parent, that would end all work. So each process has a shield as its parent.
When a shield ends, the kernel ends only its child: work that kills its parent ends only itself, and
the node knows why.

A shield waits for the end of its child and then ends, too. The dead child is left to the fork
server, which reads how it ended. If the fork server is killed, shields and their children continue,
as children of the node. The end of the node ends them: each shield has a pipe open, the *lifeline*,
whose other end only the node has. When that end closes, the kernel kills the shield (fcntl(2):
F_SETSIG).

Work can also stop its parent: `kill -STOP $PPID`. A stopped shield does not notice the end of its
child. So the fork server continues shields that were stopped, and each shield whose child was sent
SIGKILL.

The shield of a *kept* command has no lifeline: it continues without its node, outside the node's
process group. It writes the command's exit file (`exit_files`), and then stays until it is killed,
as the parent of the processes that the command has left.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from phalanx.runtime.os.child_calls import (
    LATE,
    Call,
    Chain,
    ChildCalls,
    function,
    late_argument,
)
from phalanx.runtime.os.exit_files import INFO_AT, INFO_BYTES, USAGE_BYTES, write_ending, write_pids
from phalanx.runtime.os.process_names import SHIELD, call_for_name, name_process
from phalanx.runtime.os.process_tree import end_with_parent, group_of, keep_descendants

_CLOSE_RANGE = 436
"""The number of the system call close_range(2). It is the same on all machines."""
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_FUTEX_WAIT, _LOOK_EVERY_S = 0, 1
_LAST_FD = 0xFFFF_FFFF
_F_SETSIG, _F_SETOWN, _O_ASYNC = 10, 8, 0o20000
_ANY, _BY_PID = 0, 1
_WAITID = {"x86_64": 247, "aarch64": 95, "riscv64": 95}
"""The number of the system call waitid(2). Only the system call itself, and not the C library's
function, also reports the child's use of resources.
"""
_PR_SET_CHILD_SUBREAPER = 36
_EXITED_AND_STAYS = os.WEXITED | os.WNOWAIT
_SIGINFO = ctypes.create_string_buffer(128)
_NUMBER_BYTES = 4
_SHAPE = (0, 0, LATE, 0, 0, 0)
"""The arguments of `syscall` for waitid(2): LATE stands for the pid, whose place in memory is
searched; 0 stands for any other argument.
"""
_MOST_CALLS = 13
_call = ctypes.CDLL(None).syscall


class _Memory:
    """The memory of the fork server that a shield uses while it lives. When the shield has ended,
    the next shield uses this memory.
    """

    def __init__(self, is_kept: bool) -> None:
        self.is_kept = is_kept
        """Whether the shield is that of a kept command."""
        self.chain = Chain(_MOST_CALLS)
        self.seen = ctypes.create_string_buffer(INFO_BYTES + USAGE_BYTES)
        self.numbers: Sequence[ctypes.c_int] = ()
        """Numbers that the shield writes."""


_used: dict[int, _Memory] = {}
"""The memory that living shields use, by the pids of the shields."""
_free: dict[bool, list[_Memory]] = {False: [], True: []}
"""The memory of shields that have ended, by `is_kept`."""
_MOST_FREE = 16
_LOOK_EVERY = (ctypes.c_long * 2)(_LOOK_EVERY_S, 0)


class Shield(NamedTuple):
    """The parent of one process."""

    pid: int

    def is_killed(self) -> bool:
        """Whether the shield has ended, or is ending, before its child. The child has most probably
        killed it.
        """
        with contextlib.suppress(ChildProcessError):
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended is not None and ended.si_status == signal.SIGKILL
        return False

    def go_on(self) -> None:
        """Continue the shield if it was stopped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """End the shield. Its child ends, too, and has become a child of this process when this
        returns.

        This process must be a subreaper.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        reap(self.pid)


def is_kept(pid: int) -> bool:
    """Whether a process is the shield of a kept command, which continues without its node."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n") == SHIELD and group_of(pid) == pid
    except OSError:  # the process has ended
        return False


def is_possible() -> bool:
    """Whether shields can be made that share the memory of this process."""
    can_close = _call(*map(ctypes.c_long, (_CLOSE_RANGE, _LAST_FD, _LAST_FD, 0))) == 0
    return can_close and os.uname().machine in _FUTEX


def start_shielded(
    children: ChildCalls,
    calls: Sequence[Call],
    lifeline: int,
    pid: ctypes.c_int,
    shield: ctypes.c_int,
    exit_file: int = -1,
) -> Shield:
    """Start a child that makes these calls, with a shield as its parent. Such a shield costs very
    little.

    `exit_file`: the descriptor of the exit file of a kept command; -1 for a command that is not
    kept.

    The calls must end with another program or with the child's end, and this function waits for
    that. `pid` gets the child's pid, and `shield` the shield's, as soon as they exist. Raises
    OSError if no more processes can be made.
    """
    begins = ctypes.c_int(1)
    """0 once the child has become another program, or has ended."""
    is_kept = exit_file >= 0
    held = exit_file if is_kept else _lifeline_of_its_own(lifeline)
    try:
        run = children.call_to_run(calls, pid, begins)
        memory = _free[is_kept].pop() if _free[is_kept] else _Memory(is_kept)
        memory.numbers = pid, shield
        if is_kept:
            own = _calls_of_kept(run, held, memory, pid, shield)
        else:
            own = _calls(run, held)
        children.run_along(memory.chain, own, shield)
        made = Shield(shield.value)
        _used[made.pid] = memory
        if not is_kept:
            fcntl.fcntl(held, _F_SETOWN, made.pid)
    finally:
        if not is_kept:
            os.close(held)
    if _has_begun(begins, made):
        return made
    made.end()
    gone, pid.value = pid.value, 0
    if gone:  # the shield was killed before it had started the program
        with contextlib.suppress(ProcessLookupError):
            os.kill(gone, signal.SIGKILL)
        reap(gone)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _calls(run: Call, held: int) -> list[Call]:
    """Return the calls of a shield that ends with the node. The node has the other end of
    `held`.
    """
    return [
        call_for_name(SHIELD),
        run,
        (function("dup2"), (held, 0)),
        (function("syscall"), (_CLOSE_RANGE, 1, _LAST_FD, 0)),
        (function("waitid"), (_ANY, 0, ctypes.addressof(_SIGINFO), _EXITED_AND_STAYS)),
        (function("_exit"), (0,)),
    ]


def _calls_of_kept(
    run: Call,
    held: int,
    memory: _Memory,
    pid: ctypes.c_int,
    shield: ctypes.c_int,
) -> list[Call]:
    """Return the calls of a shield that outlives its node. `held`: the exit file."""
    about = ctypes.addressof(memory.seen)
    number = _WAITID[os.uname().machine]
    wait = (
        function("syscall"),
        (number, _BY_PID, LATE, about, _EXITED_AND_STAYS, about + INFO_BYTES),
    )
    before: list[Call] = [
        call_for_name(SHIELD),
        (function("setpgid"), (0, 0)),
        (function("prctl"), (_PR_SET_CHILD_SUBREAPER, 1)),
        run,
        (function("dup2"), (held, 0)),
        (function("syscall"), (_CLOSE_RANGE, 1, _LAST_FD, 0)),
        (function("pwrite"), (0, ctypes.addressof(shield), _NUMBER_BYTES, 0)),
        (function("pwrite"), (0, ctypes.addressof(pid), _NUMBER_BYTES, _NUMBER_BYTES)),
    ]
    place = memory.chain.context(len(before) + 1) + late_argument("syscall", *_SHAPE)
    return [
        *before,
        (function("memcpy"), (place, ctypes.addressof(pid), _NUMBER_BYTES)),
        wait,
        (function("pwrite"), (0, about, len(memory.seen), INFO_AT)),
        (function("pause"), ()),
        (function("_exit"), (0,)),
    ]


def _has_begun(begins: ctypes.c_int, shield: Shield) -> bool:
    """Wait until a child has become another program or has ended. Returns False if the child will
    never be a program.
    """
    futex = _FUTEX[os.uname().machine]
    while begins.value:
        _call(futex, ctypes.byref(begins), _FUTEX_WAIT, 1, _LOOK_EVERY, None, 0)
        if begins.value and os.waitid(os.P_PID, shield.pid, _EXITED_AND_STAYS | os.WNOHANG):
            return not begins.value
    return True


def _lifeline_of_its_own(lifeline: int) -> int:
    """Open the lifeline again, and return the new descriptor. When the lifeline ends, the kernel
    kills the process that is set for this descriptor.
    """
    own = os.open(f"/proc/self/fd/{lifeline}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(own, _F_SETSIG, int(signal.SIGKILL))
    fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | _O_ASYNC)
    return own


def reap(pid: int) -> None:
    """Wait for the end of a shield, or of a child that has lost its shield. Another thread may have
    reaped it.
    """
    memory = _used.pop(pid, None)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        if memory is not None:  # it may be that of a later shield with this pid
            _used[pid] = memory
        return
    if memory is not None and len(_free[memory.is_kept]) < _MOST_FREE:
        _free[memory.is_kept].append(memory)


def fork_shielded(
    lifeline: int, kept: Iterable[int] = (), exit_file: int = -1
) -> tuple[int, Shield]:
    """Fork a child with a shield as its parent. Returns the child's pid, which is 0 in the child.

    The shield keeps the descriptors `kept` open. In the child, the returned shield is the parent
    process. `exit_file`: as for `start_shielded`. Raises OSError if no more processes can be made.
    """
    shield, read = begin_shielded(lifeline, kept, exit_file)
    return wait_for_pid(shield, read) if read >= 0 else (0, shield)


def begin_shielded(
    lifeline: int, kept: Iterable[int] = (), exit_file: int = -1
) -> tuple[Shield, int]:
    """Fork a child with a shield as its parent, without waiting for it. `wait_for_pid` reads the
    child's pid from the descriptor.

    The descriptor is -1 in the child.
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
        return Shield(shield), read
    os.close(read)
    parent, pid = os.getpid(), 0
    if exit_file >= 0:
        keep_descendants()
        os.setpgid(0, 0)
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or errno.EAGAIN)
    if pid:
        _stand(pid, write, lifeline, kept, exit_file)
    os.close(write)
    end_with_parent(parent)
    return Shield(parent), -1


def wait_for_pid(shield: Shield, read: int) -> tuple[int, Shield]:
    """Wait for the pid of a child that was begun. Raises OSError in the cases of
    `fork_shielded`.
    """
    try:
        pid = reported_pid(read)
    finally:
        os.close(read)
    return begun_by(shield, pid)


def reported_pid(read: int) -> int:
    """Wait for a shield's report, and return it: the pid of its child, or the negative number of an
    error.
    """
    report = os.read(read, _NUMBER_BYTES)
    # A shield that was killed reports nothing.
    return int.from_bytes(report, "little", signed=True) or -errno.EAGAIN


def begun_by(shield: Shield, pid: int) -> tuple[int, Shield]:
    """Return the pid of the child that a shield has reported, with the shield. Raises OSError, and
    ends the shield, if there is no child.
    """
    if pid > 0:
        return pid, shield
    shield.end()
    raise OSError(-pid, os.strerror(-pid))


def _stand(pid: int, write: int, lifeline: int, kept: Iterable[int], exit_file: int) -> NoReturn:
    """Be a shield: until the node is gone or, for a kept command, until this process is killed."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        name_process(SHIELD)
        os.write(write, pid.to_bytes(_NUMBER_BYTES, "little", signed=True))
        if pid > 0 and exit_file >= 0:
            os.close(write)
            stand_kept(pid, exit_file)
        held = _lifeline_of_its_own(lifeline)
        fcntl.fcntl(held, _F_SETOWN, os.getpid())
        _close_all_but({held, *kept})
        if pid > 0:
            os.waitid(os.P_ALL, 0, _EXITED_AND_STAYS)
    finally:
        os._exit(0)


def stand_kept(pid: int, exit_file: int) -> NoReturn:
    """Be the shield of a kept command, which is a child of this process, until this process is
    killed.
    """
    os.dup2(exit_file, 0)
    _close_all_but({0})
    write_pids(0, os.getpid(), pid)
    ended = os.waitid(os.P_PID, pid, _EXITED_AND_STAYS)
    assert ended is not None  # the shield waits in this call
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    write_ending(0, pid, code, 0.0, 0)
    while True:
        signal.pause()


def _close_all_but(kept: set[int]) -> None:
    first = 0
    for fd in sorted(kept):
        if first < fd:  # an empty range closes all descriptors
            os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _LAST_FD >> 1)
