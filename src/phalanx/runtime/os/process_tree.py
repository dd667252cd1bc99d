"""Finds processes by their parents: a process remains a descendant of the process for which it was
started.

A process can leave its group and its Unix session by setsid, so these do not show where it belongs.
It cannot leave its parent. When its parent ends, its nearest ancestor that is a subreaper becomes
its parent (prctl(2)). So each command and each worker is a subreaper, and so is the fork server:
the processes that a command has started remain its descendants while it lives, and become children
of the fork server when it ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Collection, Iterable, Mapping

from phalanx.protocol.bundle_messages import Receivers
from phalanx.runtime.os.child_calls import Call, function
from phalanx.runtime.os.polling import wait_for

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PASSES = 100
"""The number of generations of children that are ended in one call. Later generations are ended a
moment later.
"""
_DYING_S = 0.5
"""Seconds for which one process may take to die before the next is handled."""

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh", "fish", "csh", "tcsh", "busybox"})

_prctl = function("prctl")
_KILL = int(signal.SIGKILL)


def end_with_parent(parent: int = 0) -> None:
    """Make the kernel end this process when its parent ends.

    `parent` is the pid of the parent, if known. If the parent has ended already, this process ends
    immediately.
    """
    _prctl(_PR_SET_PDEATHSIG, _KILL)
    if parent and os.getppid() != parent:
        os._exit(1)


def keep_descendants() -> None:
    """Make this process the parent of all its orphaned descendants, even after it has become
    another program.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def tie_to_parent() -> list[Call]:
    """Return the calls by which a child does the same as `end_with_parent` and `keep_descendants`.

    A parent that ends before its child has become another program must end the child itself.
    """
    return [(_prctl, (_PR_SET_PDEATHSIG, _KILL)), (_prctl, (_PR_SET_CHILD_SUBREAPER, 1))]


def stopped_children(most: int) -> set[int]:
    """Return at most `most` children of this process that were stopped since the last call."""
    found: set[int] = set()
    with contextlib.suppress(ChildProcessError):
        for _ in range(most):
            one = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
            if one is None:
                break
            found.add(one.si_pid)
    return found


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, for example by SIGSTOP."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].startswith(b"T")
    except OSError:  # the process has ended
        return False


def own_children() -> list[int]:
    """Return the children of this process's first thread, including dead ones.

    These are the processes that it has started, and descendants that have lost their parents.
    """
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb", buffering=0) as file:
            return [int(pid) for pid in file.readall().split()]
    except OSError:  # this kernel does not have the file
        me = os.getpid()
        return [pid for pid, parent in _parents().items() if parent == me]


def end_orphans(known: Callable[[], Collection[int]]) -> bool:
    """End every child of this process that is not known, with all its descendants.

    The processes for which these children were started must have ended. All of the children are
    stopped before any is killed, so that none can start another process. Returns whether none is
    left. If some are left, call this function again.

    `known` returns the known children. It is called each time the children were read, because other
    threads may start children at any time.
    """
    for _ in range(_PASSES):
        there = own_children()
        kept = known()
        orphans = [pid for pid in there if pid not in kept]
        if not orphans:
            return True
        _signal_all(_stopped(orphans), signal.SIGKILL)
        dead = [reaped(pid) for pid in orphans]
        if not all(dead):
            return False
    return False


def _stopped(roots: Iterable[int]) -> set[int]:
    """Stop these processes and all their descendants, and return them.

    If a process was just being started while its parent was stopped, the next call finds it.
    """
    stopped: set[int] = set()
    for _ in range(_PASSES):
        found = {one for root in roots for one in (root, *descendants_of(root))} - stopped
        if not found:
            break
        _signal_all(found, signal.SIGSTOP)
        stopped |= found
    return stopped


def kill_trees(groups: Iterable[int], is_apart: Callable[[int], bool] = lambda pid: False) -> None:
    """Kill the processes of these process groups and all their descendants, in all Unix sessions.

    All of them are stopped before any is killed, so that none can start another process or lose its
    parent unseen. `is_apart`: whether a process stays alive, together with its descendants.
    """
    leaders = set(groups)
    stopped: set[int] = set()
    for _ in range(_PASSES):
        parents = _parents()
        roots = [pid for pid in parents if pid in leaders or group_of(pid) in leaders]
        tops = {*roots, *filter(is_apart, parents)}
        of = subtrees(tops, parents)
        found = {pid for pid, top in of.items() if not is_apart(top)} - stopped
        if not found:
            break
        _signal_all(found, signal.SIGSTOP)
        stopped |= found
    _signal_all(stopped, signal.SIGKILL)


def _signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to these processes, except those that have ended or run as another account
    (setuid).
    """
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reaped(pid: int) -> bool:
    """Wait a little until a killed child is dead, even if another thread has started it, and reap
    it. Returns whether the child is dead.
    """
    with contextlib.suppress(OSError):  # no descriptor could be opened, or the child was reaped
        pidfd = os.pidfd_open(pid)
        try:
            wait_for(pidfd, select.POLLIN, _DYING_S)
        finally:
            os.close(pidfd)
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def subtrees(roots: Iterable[int], parents: Mapping[int, int]) -> dict[int, int]:
    """Return the root of each process that is one of `roots` or a descendant of one of them.

    `parents`: the parent of each process.
    """
    of: dict[int, int] = {root: root for root in roots}
    for pid in parents:
        path: list[int] = []
        while pid not in of and pid in parents and pid not in path:
            path.append(pid)
            pid = parents[pid]
        for passed in path if pid in of else ():
            of[passed] = of[pid]
    return of


def is_group_alive(group: int) -> bool:
    """Whether any process of a group still runs. A dead process that is not reaped does not
    count.
    """
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := _status(name)):
            state, _, of = fields[:3]
            if int(of) == group and state not in (b"Z", b"X"):
                return True
    return False


def signal_command(pid: int, number: int, to: Receivers) -> None:
    """Send a signal to the processes of a command that `to` chooses, except those that have ended.

    Processes in containers of podman get the signal from podman.
    """
    below = [] if to == "command" else _descendants_outside_podman(pid)
    chosen = below if to == "started" and _is_shell(pid) else [pid, *below]
    _signal_all(chosen, number)


def _descendants_outside_podman(pid: int) -> list[int]:
    parents = _parents()
    below = [one for one in subtrees([pid], parents) if one != pid]
    monitors = [one for one in below if _gets_signals_from_podman(one)]
    inside = set(subtrees(monitors, parents)) if monitors else set()
    return [one for one in below if one not in inside]


def _is_shell(pid: int) -> bool:
    """Whether a process runs a shell now.

    A process that started as a shell may have replaced itself (exec) by its only command since. A
    shell script is recognized by its executable, the shell, because its process has the script's
    name.
    """
    try:
        with open(f"/proc/{pid}/comm") as file:
            name = file.read().strip()
        return name in SHELLS or os.path.basename(os.readlink(f"/proc/{pid}/exe")) in SHELLS
    except OSError:
        return False


def ask_to_end(group: int, roots: Iterable[int]) -> None:
    """Send SIGTERM to a process group. The signal also goes to each of `roots`, and to each of
    their descendants, that has left the group. Processes in containers get the signal from podman,
    which is in the group.

    Stopped processes are continued, because they could not end otherwise.
    """
    everybody: list[int] = []
    for root in roots:
        if not _gets_signals_from_podman(root):
            everybody += [root, *descendants_of(root, _gets_signals_from_podman)]
    others = [pid for pid in everybody if group_of(pid) != group]
    for number in (signal.SIGTERM, signal.SIGCONT):
        with contextlib.suppress(OSError):
            os.killpg(group, number)
        for pid in others:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _gets_signals_from_podman(pid: int) -> bool:
    """Whether a process is podman's monitor of a container, below which the container runs."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read() == "conmon\n"
    except OSError:
        return False


def descendants_of(pid: int, is_left_out: Callable[[int], bool] = lambda pid: False) -> list[int]:
    """Return all descendants of a process, including those that its other threads have started. A
    descendant for which `is_left_out` returns True is omitted, and so are its own descendants.
    """
    found: dict[int, None] = {}
    waiting = [pid]
    while waiting:
        for thread in _threads_of(waiting.pop()):
            children = [one for one in _children_in(thread) if one not in found]
            below = [one for one in children if not is_left_out(one)]
            found.update(dict.fromkeys(below))
            waiting += below
    return list(found)


def _threads_of(pid: int) -> list[str]:
    directory = f"/proc/{pid}/task"
    with contextlib.suppress(OSError):
        return [f"{directory}/{thread}" for thread in os.listdir(directory)]
    return []


def is_dead(pid: int) -> bool:
    """Whether a process has ended, whether it was reaped or not."""
    fields = _status(str(pid))
    return not fields or fields[0] in (b"Z", b"X")


def group_of(pid: int) -> int:
    """Return a process's group; 0 if the process does not exist."""
    fields = _status(str(pid))
    return int(fields[2]) if fields else 0


def session_of(pid: int) -> int:
    """Return a process's session, which is the pid of the session's leader; 0 if the process does
    not exist.
    """
    fields = _status(str(pid))
    return int(fields[3]) if fields else 0


def children_of(pid: int) -> list[int]:
    """Return the children of a process that has one thread, including dead ones."""
    return _children_in(f"/proc/{pid}/task/{pid}")


def _children_in(thread: str) -> list[int]:
    try:
        with open(f"{thread}/children") as file:
            return [int(one) for one in file.read().split()]
    except OSError:  # the process has ended, or the kernel does not have the file
        return []


def _parents() -> dict[int, int]:
    return {
        int(name): int(fields[1])
        for name in os.listdir("/proc")
        if name.isdecimal() and (fields := _status(name))
    }


def _status(pid: str) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on: the state, the parent, the group and
    so on; none if the process does not exist.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
