"""The description from which a worker makes an actor. The actor's owner writes the description;
node and head cannot read it.
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
    """The largest number of calls that run at the same time, for each concurrency group."""
    is_async: bool
    out_of_order: bool
    sources: list[tuple[bytes, int]] = []
    """(owner, number) of each object whose value is among the arguments. With these, the worker can
    fetch a lost value again.
    """
