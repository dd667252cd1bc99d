"""How a node holds the commands of jobs together, for display: by control groups, or by parents."""

from __future__ import annotations

from typing import Final

DELEGATED: Final = "delegated"
"""By groups below the node's own group, which its service or container has given to it."""
SCOPE: Final = "scope"
"""The same, in a scope of systemd."""
NONE: Final = "none"
"""There are no groups: processes are found by their parents."""
MEMORY: Final = "+memory"
"""The end of a way in which the kernel limits memory, too."""
_BY_PARENTS = "a process that leaves its command is found by its parents"
_WATCHED = "memory limits are watched twice a second, so a fast program may exceed them"


def held_text(way: str) -> str:
    """Return a way and what it cannot hold, in words; "" where the way is not known."""
    name = way.removesuffix(MEMORY)
    cannot = [_BY_PARENTS] if name == NONE else []
    if name == way:
        cannot.append(_WATCHED)
    return f"{name} ({'; '.join(cannot)})" if way and cannot else name
