"""The processes of a node or head, found by their names as `ps` shows them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.polling import eventually

from phalanx.runtime.os.process_names import FORK_SERVER, GATEWAY, SHIELD
from phalanx.runtime.os.process_tree import children_of, descendants_of


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def children_named(parent: int, name: bytes) -> list[int]:
    return [pid for pid in children_of(parent) if name_of(pid) == name.decode()]


def fork_server_of(node: int) -> int:
    """Wait until the node has a fork server; return its pid. There is none for a moment if the last
    one was just killed.
    """
    return _the_only(node, FORK_SERVER)


def gateway_of(daemon: int) -> int:
    return _the_only(daemon, GATEWAY)


def workers_of(node: int) -> list[int]:
    """Return the pids of the workers and commands that the node's fork server has started."""
    below = descendants_of(node)
    shields = [pid for pid in below if name_of(pid) == SHIELD.decode()]
    return [pid for shield in shields for pid in children_of(shield)]


def _the_only(parent: int, name: bytes) -> int:
    (pid,) = eventually(lambda: children_named(parent, name), f"the {name.decode()}")
    return pid
