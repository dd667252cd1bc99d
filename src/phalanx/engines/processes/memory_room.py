"""How full the memory is that this process may use: the machine's, or a control group's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import psutil

_MOUNT = "/sys/fs/cgroup"


class MemoryRoom(NamedTuple):
    """Memory that has a limit."""

    used_bytes: int
    limit_bytes: int
    whose: str
    """For people."""

    @property
    def share(self) -> float:
        """How much of it is used, 0 to 1."""
        return self.used_bytes / self.limit_bytes


def fullest_memory(proc: str = "/proc/self/cgroup", mount: str = _MOUNT) -> MemoryRoom:
    """The fullest of the machine's memory and of the limits of all control groups above this
    process. Pages of files that are not in use do not count: the kernel drops them first."""
    memory = psutil.virtual_memory()
    machine = MemoryRoom(memory.total - memory.available, memory.total, "the node's")
    groups = (room for room in _limits(proc, mount) if room.limit_bytes < memory.total)
    return max([machine, *groups], key=lambda room: room.share)


def _limits(proc: str, mount: str) -> Iterator[MemoryRoom]:
    for line in _read(proc).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = mount, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = os.path.join(mount, "memory")
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # In a container the path may be the host's: then only the top is there, which is its own.
        while True:
            if (room := _limit(os.path.join(root, path.strip("/")), *names)) is not None:
                yield room
            if path in ("", "/"):
                break
            path = os.path.dirname(path)


def _limit(directory: str, limit: str, usage: str, inactive: str) -> MemoryRoom | None:
    most, used = (_read(os.path.join(directory, name)).strip() for name in (limit, usage))
    if not most.isdecimal() or not used.isdecimal() or most == "0":
        return None  # no limit, or no such group
    stat = dict(
        line.split(" ", 1) for line in _read(os.path.join(directory, "memory.stat")).splitlines()
    )
    return MemoryRoom(int(used) - int(stat.get(inactive, 0)), int(most), "its control group's")


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
