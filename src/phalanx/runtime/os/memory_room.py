"""Finds how full the memory is that this process may use: the machine's, or that of a control
group.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psutil

from phalanx.runtime.os.detection import cgroup_folders, read_text

_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""By version of control groups: the files with a group's limit and use, and the name of its unused
file pages.
"""


class MemoryRoom(NamedTuple):
    """The memory of a machine or a control group: its limit, and how much of it is used."""

    used_bytes: int
    limit_bytes: int
    whose: str
    """The owner of the limit, in words."""

    @property
    def share(self) -> float:
        """The fraction of the memory that is used, 0 to 1."""
        return self.used_bytes / self.limit_bytes


def fullest_memory(root: Path = Path("/")) -> MemoryRoom:
    """Return the fullest memory: that of the machine, or of a control group to which this process
    belongs.

    File pages that are not in use do not count, because the kernel drops them first.
    """
    memory = psutil.virtual_memory()
    rooms = [MemoryRoom(memory.total - memory.available, memory.total, "the node's")]
    for folder in cgroup_folders(root, "memory"):
        for names in _FILES:
            room = _limit(folder, *names)
            if room is not None and room.limit_bytes < memory.total:
                rooms.append(room)
    return max(rooms, key=lambda room: room.share)


def _limit(folder: Path, limit: str, usage: str, inactive: str) -> MemoryRoom | None:
    most, used = read_text(folder / limit) or "", read_text(folder / usage) or ""
    if not most.isdigit() or not used.isdigit() or not int(most):
        return None  # the group has no limit, or does not exist
    lines = (read_text(folder / "memory.stat") or "").splitlines()
    stat = dict(line.split(" ", 1) for line in lines)
    return MemoryRoom(int(used) - int(stat.get(inactive, 0)), int(most), "its control group's")
