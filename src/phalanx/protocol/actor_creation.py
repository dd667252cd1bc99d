"""The description from which a worker makes an actor. The actor's owner writes it; node and head
cannot read it.
"""

from __future__ import annotations

import msgspec

from phalanx.protocol.messages import Payload


class Creation(msgspec.Struct, array_like=True):
    """An actor's class, the arguments of the constructor, and the way in which calls run."""

    class_key: bytes
    class_pickle: bytes
    class_name: str
    args: Payload
    inputs: list[Payload]
    max_concurrency: int
    groups: dict[str, int]
    """The limit of each concurrency group: the most calls that run at the same time."""
    is_async: bool
    out_of_order: bool
    sources: list[tuple[bytes, int]] = []
    """(owner, number) of each object whose value is an input, so that a lost value can be fetched
    again.
    """
