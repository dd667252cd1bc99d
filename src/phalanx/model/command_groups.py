"""The way in which a node finds all processes of a job's command, for display: by its control
group, or by the parent of each process.
"""

from __future__ import annotations

from typing import Final

DELEGATED: Final = "delegated"
"""The way by control groups below the node's own group, which the node's service or container has
delegated to the node.
"""
SCOPE: Final = "scope"
"""The way by control groups in a scope of systemd."""
NONE: Final = "none"
"""The way without groups: processes are found by their parents."""
MEMORY: Final = "+memory"
"""The suffix of a way of finding processes; with it, the kernel also limits the memory of a
command.
"""
_BY_PARENTS = "a process that leaves its command is found by its parents"
_WATCHED = "memory limits are watched twice a second, so a fast program may exceed them"


def held_text(way: str) -> str:
    """Return a description of a way and of the processes that it cannot find; "" if the way is
    unknown.
    """
    name = way.removesuffix(MEMORY)
    cannot = [_BY_PARENTS] if name == NONE else []
    if name == way:
        cannot.append(_WATCHED)
    return f"{name} ({'; '.join(cannot)})" if way and cannot else name
