"""Control groups of jobs' commands, when this process may make them (cgroup v2, cgroups(7)).

Processes in a group can leave it neither by setsid nor by the end of their parents, and one write
ends all of them at once. Without groups, the processes of a command are found by parentage; see
`process_tree`.
"""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path
from typing import Protocol

from phalanx.runtime.os.polling import wait_for

_PREFIX = "phalanx-"
_EMPTY_S = 0.5
"""Seconds that an ended group may take to become empty before work continues."""


class CommandGroup(Protocol):
    """The group of one command and of all that it starts."""

    def entrance(self) -> int:
        """Return a descriptor: a process that writes "0" to it joins the group. -1: the group is
        gone."""
        ...

    def processes(self) -> list[int]:
        """Return the process ids in the group."""
        ...

    def end(self) -> str:
        """End all processes in the group, and delete it once it is empty.

        Returns why the kernel has ended some of them, or "".
        """
        ...


class CommandGroups(Protocol):
    """Makes groups."""

    def make(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Make a group for a command that may use this much memory (0: any amount); None without
        one."""
        ...

    def find(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return the group that was made for a command; None without one."""
        ...


class NoGroups:
    """Stands for groups where none can be made."""

    def make(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return None: the command runs without a group."""
        return None

    def find(self, process: bytes, memory_bytes: int) -> CommandGroup | None:
        """Return None: there are no groups."""
        return None


class Cgroups:
    """Groups below a directory of the cgroup file system."""

    def __init__(self, directory: Path) -> None:
        """Delete the empty groups that an earlier session has left there."""
        self._prefix = str(directory / _PREFIX)
        for left in directory.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                left.rmdir()
        # The kernel refuses this when processes are in this group itself: then there are no memory
        # limits.
        _write(f"{directory}/cgroup.subtree_control", "+memory")

    def make(self, process: bytes, memory_bytes: int) -> Cgroup | None:
        """Make a group with a memory limit; None when the kernel refuses."""
        path = self._prefix + process.hex()
        try:
            os.mkdir(path)
        except OSError:
            return None
        if memory_bytes and _write(f"{path}/memory.max", str(memory_bytes)):
            _write(f"{path}/memory.oom.group", "1")
        return Cgroup(path, memory_bytes)

    def find(self, process: bytes, memory_bytes: int) -> Cgroup | None:
        """Return the group that was made for a command; None without one."""
        path = self._prefix + process.hex()
        return Cgroup(path, memory_bytes) if os.path.isdir(path) else None


class Cgroup:
    """One group of the cgroup file system."""

    def __init__(self, path: str, memory_bytes: int) -> None:
        self._path = path
        self._memory_bytes = memory_bytes

    def entrance(self) -> int:
        """Return a descriptor: a process that writes "0" to it joins the group. -1: the group is
        gone."""
        try:
            return os.open(f"{self._path}/cgroup.procs", os.O_WRONLY)
        except OSError:
            return -1

    def processes(self) -> list[int]:
        """Return the process ids in the group."""
        try:
            with open(f"{self._path}/cgroup.procs") as file:
                return [int(pid) for pid in file.read().split()]
        except OSError:
            return []

    def end(self) -> str:
        """End all processes in the group, and delete it once it is empty."""
        why = self._killed_by_kernel()
        if not self._is_deleted():
            _write(f"{self._path}/cgroup.kill", "1")
            self._wait_until_empty()
            self._is_deleted()  # when it is not empty yet, the next session deletes it
        return why

    def _is_deleted(self) -> bool:
        """Delete the group; return whether that succeeded. Only an empty one can be."""
        try:
            os.rmdir(self._path)
        except OSError:
            return False
        return True

    def _killed_by_kernel(self) -> str:
        killed = _fields(f"{self._path}/memory.events").get("oom_kill", 0)
        return f"it used more memory than its limit of {self._memory_bytes} bytes" if killed else ""

    def _wait_until_empty(self) -> None:
        events = f"{self._path}/cgroup.events"
        with contextlib.suppress(OSError), open(events) as file:
            while _fields(events).get("populated", 0):
                file.seek(0)
                file.read()  # only a change after a read is signalled
                if not wait_for(file.fileno(), select.POLLPRI, _EMPTY_S):
                    return


def find_command_groups(root: Path = Path("/")) -> CommandGroups:
    """Return the means to make groups below this process's own group."""
    try:
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
        own = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return NoGroups()
    points = [line.split()[4] for line in mounts if " - cgroup2 " in line]
    paths = [line.removeprefix("0::/") for line in own if line.startswith("0::/")]
    if not points or not paths:
        return NoGroups()
    directory = root / points[0].lstrip("/") / paths[0]
    has_kill = all(os.access(directory / name, os.W_OK) for name in ("", "cgroup.procs"))
    return Cgroups(directory) if has_kill else NoGroups()


def _write(path: str, text: str) -> bool:
    """Write to a file of the kernel; return whether the kernel took it."""
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
        with open(path) as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}
