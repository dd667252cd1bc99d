"""Classes of Ray's ids that identify nothing in Phalanx, but that programs create and compare."""

from __future__ import annotations

from phalanx.model.ids import UniqueID


class FunctionID(UniqueID):
    """A function's id of 28 bytes."""

    __slots__ = ()


class ActorClassID(UniqueID):
    """An actor class's id of 28 bytes."""

    __slots__ = ()


class ClusterID(UniqueID):
    """A cluster's id of 28 bytes."""

    __slots__ = ()
