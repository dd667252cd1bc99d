"""A gang as its members see it: their own rank, the other members, and where they meet."""

from __future__ import annotations

import msgspec


class GangMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One placed member: its node and that node's address, and its devices by number."""

    rank: int
    node: str
    address: str
    local_rank: int = 0
    devices: list[int] = []


class GangView(msgspec.Struct, frozen=True, kw_only=True):
    """The gang as one member sees it, from the moment at which it was placed.

    `address` is rank 0's. `ports` are free on every node of the gang; the first is MASTER_PORT.
    `env` has the variables that programs of torch.distributed and similar libraries read.
    """

    name: str
    queue: str
    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    address: str
    ports: list[int]
    devices: list[int]
    members: list[GangMember]
    env: dict[str, str] = {}
    grace_s: float = 0.0
    """Seconds between SIGTERM and SIGKILL when the member is preempted."""
