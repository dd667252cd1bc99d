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
    """Limits of concurrency groups."""
    is_async: bool
    out_of_order: bool
    sources: list[tuple[bytes, int]] = []
    """(owner, number) of the objects whose values are the inputs, so that lost values can be
    fetched again.
    """
