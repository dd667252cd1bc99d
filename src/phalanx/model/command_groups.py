"""How a node finds all processes of a job's command: by its control group, or by the parent of each
process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

DELEGATED: Final = "delegated"
"""The node uses control groups below its own control group. The service or container in which the
node runs has delegated that group to it.
"""
SCOPE: Final = "scope"
"""The node uses control groups in a scope of systemd."""
NONE: Final = "none"
"""The node uses no groups, and finds processes by their parents."""
CONTROLLERS: Final = ("memory", "pids", "cpu")
"""The kinds of limits that the kernel can enforce for the control group of a command."""
_BY_PARENTS = "a process that leaves its command is found by its parents"
_NOT_HELD = {
    "memory": "memory limits are watched twice a second, so a fast program may exceed them",
    "pids": "a command may start any number of processes",
    "cpu": "a command may take CPU time from others",
}


def way_with(way: str, held: Collection[str]) -> str:
    """Return, as one text, the way in which a node finds the processes of a command, and the kinds
    of limits that the kernel enforces there: "scope+memory", for example.
    """
    return "+".join((way, *(one for one in CONTROLLERS if one in held)))


def held_text(way: str) -> str:
    """Return, for display, a way in the form of `way_with`, and what the node cannot enforce with
    it; "" for an unknown way.
    """
    name, *held = way.split("+")
    cannot = [_BY_PARENTS] if name == NONE else []
    cannot += [text for kind, text in _NOT_HELD.items() if kind not in held]
    return f"{name} ({'; '.join(cannot)})" if way and cannot else name
