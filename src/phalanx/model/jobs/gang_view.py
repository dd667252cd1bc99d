"""A gang as one of its members sees it: the own rank, the other members, and the address at which
all meet.
"""

from __future__ import annotations

from typing import NewType

import msgspec

EncodedView = NewType("EncodedView", bytes)
"""The msgpack of a GangView, from the head to the process that runs the member.

Nodes pass it on and never read it: each view names all members of the gang, so the time for
decoding all views at each hop would grow with the square of the gang's size.
"""
NO_VIEW = EncodedView(b"")
"""Stands for the view of a task or actor that is in no gang."""
_encode = msgspec.msgpack.Encoder().encode


class GangMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One placed member: its node, the node's address, and the numbers of the member's devices."""

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


def encode_view(view: GangView) -> EncodedView:
    """Return the bytes in which a view travels."""
    return EncodedView(_encode(view))


def decode_view(encoded: EncodedView) -> GangView | None:
    """Return the view of these bytes; None for NO_VIEW."""
    return msgspec.msgpack.decode(encoded, type=GangView) if encoded else None
