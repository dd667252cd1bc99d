"""Messages between nodes about copies of objects."""

from __future__ import annotations

import msgspec


class CopyMade(msgspec.Struct, array_like=True, tag=92):
    """Node to node: the sender has a copy of this object, and wants a message when the object is
    deleted.
    """

    name: str


class WantSource(msgspec.Struct, array_like=True, tag=134):
    """Node to node: the sender asks from which node it can copy this large object. The receiver is
    the node that wrote the object.
    """

    name: str
    size: int


class SourceFor(msgspec.Struct, array_like=True, tag=135):
    """Node to node: copy this object from the node with the prefix `source`; wait if the prefix is
    empty.
    """

    name: str
    source: bytes


class SourceFree(msgspec.Struct, array_like=True, tag=136):
    """Node to node: the sender has stopped copying this object, and has no copy."""

    name: str


class Prefetch(msgspec.Struct, array_like=True, tag=93):
    """Process to its node: these objects, as (name, bytes), will soon be read on this node. Some of
    them are on other nodes.
    """

    objects: list[tuple[str, int]]


CopyMessage = CopyMade | WantSource | SourceFor | SourceFree | Prefetch
