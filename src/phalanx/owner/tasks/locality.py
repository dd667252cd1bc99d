"""Finds the nodes that have a task's large arguments, so that the task runs near them.

The name of a value's file says on which node it was written, so its owner needs to ask nobody. If
this node has a copy, the value counts as written here. A node that ran a task of this process with
the value as an argument has a copy, too, until it evicts the copy for lack of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, task_id_bytes
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef
from phalanx.observe.cluster_events import (
    ArgumentsLocated,
    EventRing,
    LocationKnown,
    ReadersNotified,
    ReaderWaits,
)
from phalanx.owner.tasks.records import ClassKey, PendingTask
from phalanx.protocol.messages import SHARED, Value
from phalanx.scheduler.placement.locality import best_holder

COPIES_KNOWN = 4096
"""The number of values whose copies are remembered. When one more comes, the oldest is
forgotten.
"""


class Locality:
    """Gives tasks a scheduling class near the node that has their large arguments, if that is
    another node.

    It also records events about the places of large values.
    """

    def __init__(
        self,
        me: bytes,
        events: EventRing,
        is_here: Callable[[str], bool],
        wall: Callable[[], float],
    ) -> None:
        """`is_here`: whether this node has a file or a copy of it. `wall` returns seconds since the
        epoch.
        """
        self._me = me
        self._node = me[:PREFIX_BYTES].hex()
        self._events = events
        self._is_here = is_here
        self._wall = wall
        self._keys: dict[tuple[ClassKey, str, int], ClassKey] = {}
        self.is_used = False
        """Whether any task so far was to run near its arguments."""
        self._dead: set[str] = set()
        self._copies: dict[str, set[str]] = {}
        """For each file, by name: the nodes that have read it, except the node that wrote it."""

    def place(self, task: PendingTask, number_of: Callable[[ClassKey], int]) -> None:
        """Set the scheduling class of a task with large inputs. `number_of` returns a class's
        number.

        Only the default strategy regards the places of arguments.
        """
        base = task.key = task.template.key
        if base.strategy:
            return
        objects = [
            (name, value.size, self._node_of(name))
            for ref in task.inputs or ()
            if type(value := ref._value) is Value and value.kind == SHARED
            for name in [value.data.decode()]
        ]
        bytes_on: dict[str, int] = {}
        for name, size, node in objects:
            for holder in {node, *self._copies.get(name, ())} - self._dead:
                bytes_on[holder] = bytes_on.get(holder, 0) + size
        if bytes_on.keys() <= {self._node}:
            return
        near = best_holder(bytes_on, self._node)
        if near != self._node:
            task.key = self._key(base, near, bytes_on[near])
        self._events.record(
            ArgumentsLocated(
                **self._about(task.number),
                name=task.template.name,
                owner=self._me.hex(),
                scheduling_class=number_of(task.key),
                objects=objects,
                near="" if near == self._node else near,
            )
        )

    def note_reads(self, inputs: Iterable[ObjectRef[Any]], reader: bytes) -> None:
        """Note that a process has run a task with these inputs, so that its node has copies of
        them.
        """
        node = reader[:PREFIX_BYTES].hex()
        for ref in inputs:
            value = ref._value
            if type(value) is not Value or value.kind != SHARED:
                continue
            name = value.data.decode()
            if node in (self._node, prefix_of_name(name).hex()):
                continue
            self._copies.setdefault(name, set()).add(node)
            if len(self._copies) > COPIES_KNOWN:
                del self._copies[next(iter(self._copies))]

    def node_died(self, prefix: bytes) -> None:
        """Forget a dead node. `prefix`: the first bytes of the ids of its processes."""
        self._dead.add(prefix.hex())

    def waited_for(self, tasks: Iterable[PendingTask]) -> None:
        """Record that this process waits for the results of these tasks. Only tasks that are to run
        near their arguments, on another node, are recorded.
        """
        for task in tasks:
            if task.key is not task.template.key:
                self._events.record(ReaderWaits(**self._about(task.number), reader=self._me.hex()))

    def stored(self, ref: ObjectRef[Any], value: Value, writer: bytes) -> None:
        """Record that a process of another node has written a large result of this process.

        Also record how many readers in this process wait for the result.
        """
        if writer[:PREFIX_BYTES] == self._me[:PREFIX_BYTES]:
            return
        name = value.data.decode()
        about = {**self._about(ref._number >> INDEX_BITS), "object": name}
        where = prefix_of_name(name).hex()
        self._events.record(LocationKnown(**about, bytes=value.size, stored_on=where))
        if ref._waiters:
            self._events.record(ReadersNotified(**about, readers=len(ref._waiters)))

    def _about(self, number: int) -> dict[str, Any]:
        task = task_id_bytes(self._me, number).hex()
        return {"at": self._wall(), "node": self._node, "task": task}

    def _node_of(self, name: str) -> str:
        node = prefix_of_name(name).hex()
        return self._node if node != self._node and self._is_here(name) else node

    def _key(self, base: ClassKey, near: str, size: int) -> ClassKey:
        # The size is rounded to a power of two, because otherwise nearly every task would have a
        # class of its own.
        rounded = 1 << (size - 1).bit_length()
        found = self._keys.get((base, near, rounded))
        if found is None:
            strategy = msgspec.json.encode({"near": near, "bytes": rounded}, order="sorted")
            found = msgspec.structs.replace(base, strategy=strategy, near=bytes.fromhex(near))
            self._keys[base, near, rounded] = found
            self.is_used = True
        return found
