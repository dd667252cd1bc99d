"""Where a task's large arguments lie, and that it should rather run there.

A value in shared memory is named after the node where it was written, so its owner needs to ask
nobody. What was copied to this node since lies here too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, task_id_bytes
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef
from phalanx.observe.cluster_events import (
    ArgumentsLocated,
    LocationKnown,
    ReaderTold,
    ReaderWaits,
)
from phalanx.owner.tasks.records import ClassKey, PendingTask
from phalanx.policies.locality import best_holder
from phalanx.protocol.messages import SHARED, Value

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime


class Locality:
    """Gives tasks with large arguments on other nodes a scheduling class that says so."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._keys: dict[tuple[ClassKey, str, int], ClassKey] = {}

    @property
    def is_used(self) -> bool:
        """Whether any task was to run near its arguments so far."""
        return bool(self._keys)

    def place(self, task: PendingTask) -> None:
        """Set the class of a task some of whose inputs are large. Only the default strategy heeds
        where they lie."""
        base = task.key = task.template.key
        if base.strategy:
            return
        here = self._runtime.process_id[:PREFIX_BYTES].hex()
        objects = [
            (name, value.size, self._node_of(name, here))
            for ref in task.inputs or ()
            if type(value := ref._value) is Value and value.kind == SHARED
            for name in [value.data.decode()]
        ]
        bytes_on: dict[str, int] = {}
        for _, size, node in objects:
            bytes_on[node] = bytes_on.get(node, 0) + size
        if bytes_on.keys() == {here}:
            return
        near = best_holder(bytes_on, here)
        if near != here:
            task.key = self._key(base, near, bytes_on[near])
        number = self._runtime.tasks.machine.class_of(task.key).number
        owner = self._runtime.process_id
        self._runtime.events.record(
            ArgumentsLocated(
                at=time.time(),
                node=here,
                task=task_id_bytes(owner, task.number).hex(),
                name=task.template.name,
                owner=owner.hex(),
                scheduling_class=number,
                objects=objects,
                near="" if near == here else near,
            )
        )

    def waited_for(self, refs: Sequence[ObjectRef[Any]]) -> None:
        """Record that a reader here waits for results of such tasks."""
        me = self._runtime.process_id
        for ref in refs:
            task = None
            if ref._owner == me:
                task = self._runtime.tasks.machine.pending.get(ref._number >> INDEX_BITS)
            if task is not None and task.key is not task.template.key:
                self._runtime.events.record(
                    ReaderWaits(
                        at=time.time(),
                        node=me[:PREFIX_BYTES].hex(),
                        task=task_id_bytes(me, task.number).hex(),
                        reader=me.hex(),
                    )
                )

    def stored(self, ref: ObjectRef[Any], payload: Value) -> None:
        """Record that a large result was written on another node, and who is told."""
        me = self._runtime.process_id
        name = payload.data.decode()
        which: dict[str, Any] = {
            "at": time.time(),
            "node": me[:PREFIX_BYTES].hex(),
            "task": task_id_bytes(me, ref._number >> INDEX_BITS).hex(),
            "object": name,
        }
        where = prefix_of_name(name).hex()
        events = self._runtime.events
        events.record(LocationKnown(**which, bytes=payload.size, stored_on=where))
        if ref._waiters:
            events.record(ReaderTold(**which, readers=len(ref._waiters)))

    def _node_of(self, name: str, here: str) -> str:
        node = prefix_of_name(name).hex()
        if node != here and os.path.exists(os.path.join(self._runtime.session.shared, name)):
            return here
        return node

    def _key(self, base: ClassKey, near: str, size: int) -> ClassKey:
        # Powers of two: as many classes as sizes would leave each with one task.
        rounded = 1 << (size - 1).bit_length()
        found = self._keys.get((base, near, rounded))
        if found is None:
            strategy = msgspec.json.encode({"near": near, "bytes": rounded}, order="sorted")
            found = msgspec.structs.replace(base, strategy=strategy)
            self._keys[base, near, rounded] = found
        return found
