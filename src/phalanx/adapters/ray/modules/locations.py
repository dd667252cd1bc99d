"""`ray.experimental.locations`: the nodes on which objects lie, and the objects' sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.api.cluster import nodes
from phalanx.api.session import is_initialized
from phalanx.model.ids import node_prefix
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef
from phalanx.owner.objects.lineage import bytes_of
from phalanx.protocol.messages import SHARED, Value

Locations = dict[ObjectRef[Any], dict[str, Any]]


def get_local_object_locations(obj_refs: Sequence[ObjectRef[Any]]) -> Locations:
    """Return what this process knows about each object, without asking another process.
    `object_size` is in bytes (None while the object is not known to exist). `node_ids` is empty for
    a small object, which is sent in messages. Raises RuntimeError if this process has no session.
    """
    if not is_initialized():
        raise RuntimeError("Phalanx is not running: call init() first.")
    large = [ref for ref in obj_refs if _file(ref)]
    by_prefix = {node_prefix(row["NodeID"]): row["NodeID"] for row in nodes()} if large else {}
    return {ref: _facts(ref, by_prefix) for ref in obj_refs}


def get_object_locations(obj_refs: Sequence[ObjectRef[Any]], timeout_ms: int = -1) -> Locations:
    """Return the result of `get_local_object_locations`. Only an object's owner knows all its
    locations. Other processes know the locations that the owner has sent them.
    """
    return get_local_object_locations(obj_refs)


def _file(ref: ObjectRef[Any]) -> str:
    """Return the name of the object's file in shared memory; empty for an object without one."""
    payload = ref._value
    if isinstance(payload, Value) and payload.kind == SHARED:
        return payload.data.decode()
    return ""


def _facts(ref: ObjectRef[Any], by_prefix: Mapping[bytes, str]) -> dict[str, Any]:
    file = _file(ref)
    writer = by_prefix.get(prefix_of_name(file)) if file else None
    return {
        "node_ids": [] if writer is None else [writer],
        "object_size": None if ref._value is None else bytes_of(ref._value),
        "did_spill": False,
    }
