"""Values that the members of a collective group share in a table at the head. By them, members find
the group's first member.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from phalanx.api.cluster import nodes
from phalanx.api.runtime_context import get_runtime_context
from phalanx.api.session import engine_or_start
from phalanx.protocol.requests.key_values import DeleteValues, GetValue, PutValue

_SPACE = b"phalanx:collective"
ASK_EVERY_S = 0.05


def put(kind: str, group: str, value: Any) -> None:
    """Store a value for a group at the head. `kind`: what the value describes, since a group may
    have several values.
    """
    engine_or_start().ask(PutValue(_SPACE, _key(kind, group), json.dumps(value).encode(), True))


def find(kind: str, group: str) -> Any:
    """Return the value of this kind that is stored for a group; None if there is none."""
    found = engine_or_start().ask(GetValue(_SPACE, _key(kind, group)))
    return None if found is None else json.loads(found)


def drop(kind: str, group: str) -> None:
    """Delete the value of this kind that is stored for a group."""
    engine_or_start().ask(DeleteValues(_SPACE, _key(kind, group), False))


def wait_for(kind: str, group: str, until: float) -> Any:
    """Wait until a value of this kind is stored for a group, and return it. Raises TimeoutError at
    the time `until` of the monotonic clock.
    """
    while (found := find(kind, group)) is None:
        if time.monotonic() > until:
            raise TimeoutError(f"member 0 has not joined the collective group '{group}'")
        time.sleep(ASK_EVERY_S)
    return found


def listen_here(backlog: int) -> socket.socket:
    """Return a socket that listens only at the address by which other nodes reach this node."""
    here = get_runtime_context().get_node_id()
    host = next(str(row["NodeManagerAddress"]) for row in nodes() if row["NodeID"] == here)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.bind((host, 0))
    listening.listen(backlog)
    return listening


def _key(kind: str, group: str) -> bytes:
    return f"{kind}:{get_runtime_context().namespace}:{group}".encode()
