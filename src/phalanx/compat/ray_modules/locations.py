"""`ray.experimental.locations`: where objects lie, and how large they are."""

from __future__ import annotations

from collections.abc import Sequence
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
    """What this process knows of each object, asking nobody: `object_size` in bytes (None while it
    is not known to be there), and `node_ids`, empty for one that travels in messages.

    Raises RuntimeError when Phalanx is not running here.
    """
    if not is_initialized():
        raise RuntimeError("Phalanx is not running: call init() first.")
    return {ref: _of(ref) for ref in obj_refs}


def get_object_locations(obj_refs: Sequence[ObjectRef[Any]], timeout_ms: int = -1) -> Locations:
    """The same: an owner knows all, and others what the owner told them."""
    return get_local_object_locations(obj_refs)


def _of(ref: ObjectRef[Any]) -> dict[str, Any]:
    payload = ref._value
    is_shared = isinstance(payload, Value) and payload.kind == SHARED
    return {
        "node_ids": _writers_node(payload.data.decode()) if is_shared else [],
        "object_size": None if payload is None else bytes_of(payload),
        "did_spill": False,
    }


def _writers_node(file: str) -> list[str]:
    writer = prefix_of_name(file)
    return [one for row in nodes() if node_prefix(bytes.fromhex(one := row["NodeID"])) == writer]
