"""Control groups of jobs' commands, when this process may make them (cgroup v2, cgroups(7)).

Processes cannot leave a group, neither by setsid nor by the end of their parents, and one write
ends all of them at once. The kernel holds a group to its memory and to a number of processes, and
gives it CPU time by its weight. It does so only below a group without processes, so the daemons of
a node move from the group that they were started in into a group below it.

Without groups, the processes of a command are found by their parents (see `process_tree`).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import select
import signal
from typing import NamedTuple, Protocol

from phalanx.model.attempts import OUT_OF_MEMORY
from phalanx.model.command_groups import CONTROLLERS, DELEGATED, NONE, SCOPE, way_with
from phalanx.model.readable import size
from phalanx.runtime.os.polling import wait_for
from phalanx.runtime.os.session import started_at

_PREFIX = "phalanx-"
_OWNED = re.compile(rf"{_PREFIX}(\d+)\.(\d+)-[0-9a-f]+")
"""Matches the name of a group: the pid and start time of its node, and the id of its command."""
DAEMONS = "phalanx-daemons"
"""The name of the group to which the daemons move, below the group that was delegated to them."""
MOST_PROCESSES = 32_768
"""The largest number of processes and threads of a command."""
_PART_OF_PIDS = 4
"""One command gets at most the number of the machine's pids, divided by this number."""
_WEIGHT_OF_CPU = 100
"""The weight for one CPU. It is also the kernel's default for the weight of a group."""
_MOST_WEIGHT = 10_000
_EMPTY_S = 0.05
"""The longest time, in seconds, for which one call waits until a group that was ended is empty."""


class Limits(NamedTuple):
    """The limits that hold for a command and all processes that it starts, together."""

    memory_bytes: int = 0
    """The memory in bytes; 0 for any amount."""
    cpus: float = 0.0
    """The CPUs that the command holds, by which it shares CPU time with others; 0 if unknown."""


class CommandGroup(Protocol):
    """The control group of a command and of all processes that the command starts."""

    def entrance(self) -> int:
        """Return a descriptor: a process that writes "0" to it joins the group. -1 if the group is
        gone.
        """
        ...

    def processes(self) -> list[int]:
        """Return the process ids in the group."""
        ...

    def end(self) -> bool:
        """End all processes in the group, and delete the group once it is empty. Returns whether it
        is deleted.

        If the group is not deleted, some processes are still dying, and this must be called again.
        """
        ...

    def why_killed(self) -> str:
        """Return why the kernel has killed processes of the group so far; "" if none was killed."""
        ...


class CommandGroups(Protocol):
    """Makes groups."""

    def way(self) -> str:
        """Return the way in which the processes of each command are kept together (see
        `model.command_groups`).
        """
        ...

    def make(self, process: bytes, limits: Limits) -> CommandGroup | None:
        """Make a group for a command. Returns None if no group can be made."""
        ...

    def find(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return the group that was made for a command; None if the command has no group."""
        ...

    def find_of_earlier(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return the group that an earlier process of the node made for a command; None if the
        command has no group.
        """
        ...


class NoGroups:
    """The `CommandGroups` of a machine on which no group can be made."""

    def way(self) -> str:
        """Return NONE: no groups keep the processes of a command together."""
        return NONE

    def make(self, process: bytes, limits: Limits) -> CommandGroup | None:
        """Return None: the command runs without a group."""
        return None

    def find(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return None: there are no groups."""
        return None

    find_of_earlier = find


class Cgroups:
    """Groups below a directory of the cgroup file system."""

    def __init__(self, directory: str, node: int) -> None:
        """Prepare `directory` for groups: delete the empty groups that ended nodes have left there,
        and let the kernel limit the groups. `node`: the pid of this node.
        """
        self._directory = directory
        self._prefix = f"{directory}/{_PREFIX}{node}.{started_at(node)}-"
        for left in _groups_in(directory):
            owner = _OWNED.fullmatch(left)
            if owner is None or started_at(int(owner[1])) != owner[2]:
                with contextlib.suppress(OSError):
                    os.rmdir(f"{directory}/{left}")
        if _is_busy(directory):
            _move_daemons(directory)
        self._held = _hand_on(directory)

    def way(self) -> str:
        """Return the way in which the processes of each command are kept together."""
        way = SCOPE if self._directory.endswith(".scope") else DELEGATED
        return way_with(way, self._held)

    def make(self, process: bytes, limits: Limits) -> Cgroup | None:
        """Make a group with limits. Returns None if the kernel refuses."""
        path = self._prefix + process.hex()
        try:
            os.mkdir(path)
        except OSError:
            return None
        if limits.memory_bytes and _write(f"{path}/memory.max", str(limits.memory_bytes)):
            _write(f"{path}/memory.oom.group", "1")
            _write(f"{path}/memory.swap.max", "0")
        if "pids" in self._held:
            _write(f"{path}/pids.max", str(most_processes()))
        if limits.cpus and "cpu" in self._held:
            _write(f"{path}/cpu.weight", str(cpu_weight(limits.cpus)))
        return Cgroup(path, limits.memory_bytes)

    def find(self, process: bytes, memory_bytes: int) -> Cgroup | None:
        """Return the group that was made for a command; None if the command has no group."""
        path = self._prefix + process.hex()
        return Cgroup(path, memory_bytes) if os.path.isdir(path) else None

    def find_of_earlier(self, process: bytes, memory_bytes: int) -> Cgroup | None:
        """Return the group that an earlier process of the node made for a command; None if the
        command has no group.
        """
        for name in _groups_in(self._directory):
            if name.endswith(f"-{process.hex()}"):
                return Cgroup(f"{self._directory}/{name}", memory_bytes)
        return None


class Cgroup:
    """A group of the cgroup file system."""

    def __init__(self, path: str, memory_bytes: int) -> None:
        self._path = path
        self._memory_bytes = memory_bytes

    def entrance(self) -> int:
        """Return a descriptor: a process that writes "0" to it joins the group. -1 if the group is
        gone.
        """
        try:
            return os.open(f"{self._path}/cgroup.procs", os.O_WRONLY)
        except OSError:
            return -1

    def processes(self) -> list[int]:
        """Return the process ids in the group and in the groups below it. A command may make such
        groups: for example, its program may start a node.
        """
        paths = [*_groups_below(self._path), self._path]
        return [pid for path in paths for pid in _processes_in(path)]

    def end(self) -> bool:
        """End all processes in the group, and delete the group once it is empty. Returns whether it
        is deleted.
        """
        if self._is_deleted():
            return True
        if not _write(f"{self._path}/cgroup.kill", "1"):  # a kernel before 5.14
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._wait_until_empty()
        return self._is_deleted()

    def _is_deleted(self) -> bool:
        """Delete the group. Returns whether that succeeded: only an empty group can be deleted."""
        try:
            os.rmdir(self._path)
        except FileNotFoundError:
            return True
        except OSError:
            return self._is_deleted_with_groups_below()
        return True

    def _is_deleted_with_groups_below(self) -> bool:
        for path in (*_groups_below(self._path), self._path):
            try:
                os.rmdir(path)
            except OSError:
                return False
        return True

    def why_killed(self) -> str:
        """Return why the kernel has killed processes of the group so far, or has refused to start
        some; "" if it has done neither.
        """
        if not _fields(f"{self._path}/memory.events").get("oom_kill", 0):
            is_full = _fields(f"{self._path}/pids.events").get("max", 0)
            return f"it reached its limit of {most_processes()} processes" if is_full else ""
        try:
            with open(f"{self._path}/memory.peak") as file:
                peak = f"; its peak was {size(int(file.read()))}"
        except (OSError, ValueError):  # a kernel before 5.19
            peak = ""
        if self._memory_bytes:
            return f"{OUT_OF_MEMORY}: it reached its limit of {size(self._memory_bytes)}{peak}"
        return (
            f"{OUT_OF_MEMORY}: the memory of its node, or of a group around it, was used up{peak}"
        )

    def _wait_until_empty(self) -> None:
        events = f"{self._path}/cgroup.events"
        with contextlib.suppress(OSError), open(events) as file:
            while _fields(events).get("populated", 0):
                file.seek(0)
                file.read()  # The kernel only signals changes that come after a read.
                if not wait_for(file.fileno(), select.POLLPRI, _EMPTY_S):
                    return


def _groups_below(path: str) -> list[str]:
    """Return the groups below a group, each after those that are below itself."""
    found = os.walk(path, topdown=False)
    return [f"{above}/{name}" for above, names, _ in found for name in names]


def _processes_in(path: str) -> list[int]:
    """Return the processes of a group, without those of the groups below it."""
    try:
        with open(f"{path}/cgroup.procs") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _groups_in(directory: str) -> list[str]:
    """Return the names of the groups of commands in a directory."""
    try:
        return [name for name in os.listdir(directory) if name.startswith(_PREFIX)]
    except OSError:
        return []


def find_command_groups(node: int, root: str | os.PathLike[str] = "/") -> CommandGroups:
    """Return the object that makes groups below this process's own group.

    `node`: the pid of the process for which the groups are made. After the end of that process, the
    groups count as left behind.
    """
    directory = writable_group(root)
    return NoGroups() if directory is None else Cgroups(directory, node)


def writable_group(root: str | os.PathLike[str] = "/") -> str | None:
    """Return this process's own group if this user may make groups below it, otherwise None. For a
    daemon that has moved, this is the group from which it came.
    """
    try:
        with open(os.path.join(root, "proc/self/mountinfo")) as file:
            mounts = file.read().splitlines()
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            own = file.read().splitlines()
    except OSError:
        return None
    points = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    paths = [line.removeprefix("0::/") for line in own if line.startswith("0::/")]
    if not points or not paths:
        return None
    directory = os.path.join(root, points[0].lstrip("/"), paths[0]).rstrip("/")
    directory = directory.removesuffix(f"/{DAEMONS}")
    is_ours = all(
        os.access(os.path.join(directory, name), os.W_OK) for name in ("", "cgroup.procs")
    )
    return directory if is_ours else None


@functools.cache
def most_processes() -> int:
    """Return the largest number of processes and threads of a command on this machine."""
    try:
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            return min(MOST_PROCESSES, int(file.read()) // _PART_OF_PIDS)
    except (OSError, ValueError):
        return MOST_PROCESSES


def cpu_weight(cpus: float) -> int:
    """Return the weight of a group that holds this number of CPUs, for the file cpu.weight."""
    return min(max(round(cpus * _WEIGHT_OF_CPU), 1), _MOST_WEIGHT)


def _hand_on(directory: str) -> tuple[str, ...]:
    """Let the kernel limit the groups below a group. Returns the controllers that it now uses."""
    control = f"{directory}/cgroup.subtree_control"
    if _write(control, " ".join(f"+{one}" for one in CONTROLLERS)):
        return CONTROLLERS
    return tuple(one for one in CONTROLLERS if _write(control, f"+{one}"))


def _is_busy(directory: str) -> bool:
    """Whether the kernel refuses to limit the groups below a group only because the group itself
    has processes.
    """
    for one in CONTROLLERS:
        try:
            with open(f"{directory}/cgroup.subtree_control", "w") as file:
                file.write(f"+{one}")
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
    return False


def _move_daemons(directory: str) -> None:
    """Move Phalanx's daemons from the group `directory` into a group below it."""
    with contextlib.suppress(OSError):
        os.mkdir(f"{directory}/{DAEMONS}")
    for pid in filter(_is_daemon, _processes_in(directory)):
        _write(f"{directory}/{DAEMONS}/cgroup.procs", str(pid))


def _is_daemon(pid: int) -> bool:
    """Whether a process is one of Phalanx: this one, or one whose command line names Phalanx."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return pid == os.getpid() or b"phalanx" in file.read()
    except OSError:  # the process has ended
        return True


def _write(path: str, text: str) -> bool:
    """Write to a file of the kernel. Returns whether the kernel accepted the text."""
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(fd, text.encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _fields(path: str) -> dict[str, int]:
    try:
        with open(path, "rb", buffering=0) as file:
            lines = file.readall().decode().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}
