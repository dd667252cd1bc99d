"""The ways in which a node finds all processes of a job's command: by its control group, or by the
parent of each process.
"""

from __future__ import annotations

from typing import Final

DELEGATED: Final = "delegated"
"""The node uses control groups below its own group, which its service or container has delegated to
it.
"""
SCOPE: Final = "scope"
"""The node uses control groups in a scope of systemd."""
NONE: Final = "none"
"""The node uses no groups, and finds processes by their parents."""
MEMORY: Final = "+memory"
"""The suffix of a way for which the kernel also limits the memory of a command."""
_BY_PARENTS = "a process that leaves its command is found by its parents"
_WATCHED = "memory limits are watched twice a second, so a fast program may exceed them"


def held_text(way: str) -> str:
    """Return a description of a way, with the processes that it cannot find; "" for an unknown
    way.
    """
    name = way.removesuffix(MEMORY)
    cannot = [_BY_PARENTS] if name == NONE else []
    if name == way:
        cannot.append(_WATCHED)
    return f"{name} ({'; '.join(cannot)})" if way and cannot else name
