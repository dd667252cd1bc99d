"""A gang as one of its members sees it: the member's rank, the other members, and the address at
which all members meet.
"""

from __future__ import annotations

from typing import NewType

import msgspec

EncodedView = NewType("EncodedView", bytes)
"""The msgpack of a GangView, which travels from the head to the process that runs the member.

Nodes pass the bytes on and never decode them. Each view names all members of the gang, so decoding
every view at each node would take time quadratic in the gang's size.
"""
NO_VIEW = EncodedView(b"")
"""The empty bytes instead of a view, for a task or actor that is in no gang."""
_encode = msgspec.msgpack.Encoder().encode


class GangMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One placed member: its node, the node's address, and the numbers of the member's devices."""

    rank: int
    node: str
    address: str
    local_rank: int = 0
    devices: list[int] = []


class GangView(msgspec.Struct, frozen=True, kw_only=True):
    """A placed gang as one of its members sees it.

    `address` is the address of rank 0's node. `ports` are free on every node of the gang; the first
    is MASTER_PORT. `env` has the variables that programs of torch.distributed and similar libraries
    read.
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


def encode_view(view: GangView) -> EncodedView:
    """Return a view as bytes, for messages."""
    return EncodedView(_encode(view))


def decode_view(encoded: EncodedView) -> GangView | None:
    """Return the view in these bytes; None for NO_VIEW."""
    return msgspec.msgpack.decode(encoded, type=GangView) if encoded else None
