"""Ids of Ray's that name nothing here; programs make and compare them."""

from __future__ import annotations

from phalanx.model.ids import UniqueID


class FunctionID(UniqueID):
    """28 bytes."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """28 bytes."""

    __slots__ = ()


class ClusterID(UniqueID):
    """28 bytes."""

    __slots__ = ()
