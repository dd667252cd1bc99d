"""What a worker needs to make an actor: from its owner, opaque to node and head."""

from __future__ import annotations

import msgspec

from phalanx.protocol.messages import Payload


class Creation(msgspec.Struct, array_like=True):
    """An actor's class, the arguments of its constructor, and how its calls run."""

    class_key: bytes
    class_pickle: bytes
    class_name: str
    args: Payload
    inputs: list[Payload]
    max_concurrency: int
    groups: dict[str, int]
    """Limits of concurrency groups."""
    is_async: bool
    out_of_order: bool
    sources: list[tuple[bytes, int]] = []
    """(owner, number) of the objects that the inputs are values of: a lost one is asked for."""
