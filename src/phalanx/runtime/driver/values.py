"""The values of objects: packs them for other processes, and reads them from messages and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from mmap import mmap
from typing import Any

from phalanx.errors import GetTimeoutError, ObjectLostError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.system_settings import INLINE_BYTES
from phalanx.objects import failures
from phalanx.objects.file_hold import FileHold
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef, Vanished
from phalanx.objects.serialization import Pickled, deserialize, serialize
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.objects.unread import mark_read
from phalanx.protocol.messages import FAILED, INLINE, SHARED, Payload, Value
from phalanx.protocol.node_messages import Unwanted, Used
from phalanx.protocol.requests.node import PullObject
from phalanx.runtime.driver.alignment import aligned
from phalanx.runtime.driver.requests import NodeRequests
from phalanx.runtime.driver.transport import NodeConnection
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.shared_memory import SharedStore

Packed = tuple[Payload, FileHold | None, list[ObjectRef[Any]] | None]
"""A packed value: (payload, hold on its file, references in it)."""


class FileGone(Exception):
    """Raised when the file of an object's value does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Packer:
    """Makes payloads from values."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self.inline_bytes = INLINE_BYTES
        """The largest size in bytes of a value that is sent in a message."""

    def pack(self, value: Any) -> Packed:
        """Pack a value for sending. Raises the errors of pickling the value."""
        pickled = serialize(value)
        if type(pickled) is bytes:
            if len(pickled) <= self.inline_bytes:
                return pickled, None, None
            shared, hold = self._store.write(pickled, ())
            return shared, hold, None
        return self.pack_parts(pickled)  # type: ignore[arg-type]

    def pack_parts(self, pickled: Pickled) -> Packed:
        """Pack a value that was pickled already."""
        refs = [(r._owner, r._number) for r in pickled.refs]
        size = len(pickled.data)
        for buffer in pickled.buffers:
            size += buffer.raw().nbytes
        hold = None
        if size <= self.inline_bytes:
            buffers = [bytes(b.raw()) for b in pickled.buffers]
            packed = Value(INLINE, pickled.data, buffers, refs)
        else:
            packed, hold = self._store.write(pickled.data, pickled.buffers)
            packed.refs = refs
        return packed, hold, pickled.refs or None


class Values:
    """Reads the values of objects that are ready."""

    def __init__(
        self,
        me: bytes,
        store: SharedStore,
        objects: ObjectTable,
        node: NodeConnection,
        requests: NodeRequests,
        lock: AbstractContextManager[Any],
    ) -> None:
        self._prefix = me[:PREFIX_BYTES]
        self._store = store
        self._objects = objects
        self._node = node
        self._requests = requests
        self._lock = lock

    def read(self, ref: ObjectRef[Any], deadline: float | None = None) -> Any:
        """Return the value of a ready reference.

        Raises the object's error; Vanished for a lost object, which is then requested again; and
        GetTimeoutError if the object's file is not here by `deadline`.
        """
        payload = ref._value
        if type(payload) is bytes:
            return deserialize(payload)
        if payload is None:
            raise Vanished
        try:
            return self.read_payload(payload, ref, deadline=deadline)  # type: ignore[arg-type]
        except FileGone as gone:
            with self._lock:
                self._objects.recover(ref, gone.name)
            raise Vanished from None

    def read_payload(
        self,
        payload: Value,
        ref: ObjectRef[Any] | None = None,
        inner: Sequence[ObjectRef[Any]] = (),
        deadline: float | None = None,
    ) -> Any:
        """Return the value of a payload that is more than plain bytes.

        `ref`: the reference whose value the payload is. Raises the error that the payload contains;
        FileGone; and Vanished if `ref` has lost this payload in the meantime.
        """
        mapping = None
        if ref is not None:
            inner = ref._inner or ()
            mapping = ref._cached
            if ref._value is not payload:
                # the object was lost in the meantime: the data just read does not belong to this
                # payload
                raise Vanished
        if payload.kind == INLINE:
            return deserialize(payload.data, [aligned(b) for b in payload.buffers], inner)
        if payload.kind == FAILED:
            if ref is not None:
                mark_read(ref)
            raise failures.load(payload.data)
        if mapping is None:
            mapping = self._mapped(payload, ref, deadline)
        data, buffers = self._store.parts(mapping)
        return deserialize(data, buffers, inner)

    def read_raw(self, ref: ObjectRef[Any]) -> Payload:
        """Return the value of a ready reference as a payload without a file, for a reader on
        another machine. Raises Vanished as `read` does.
        """
        payload = ref._value
        if payload is None:
            raise Vanished
        if type(payload) is bytes:
            return payload
        assert type(payload) is Value
        if payload.kind == FAILED:
            mark_read(ref)
        if payload.kind != SHARED:
            return payload
        try:
            mapping = ref._cached or self._mapped(payload, ref, None)
        except FileGone as gone:
            with self._lock:
                self._objects.recover(ref, gone.name)
            raise Vanished from None
        data, buffers = self._store.parts(mapping)
        return Value(INLINE, bytes(data), [bytes(one) for one in buffers], payload.refs)

    def _mapped(self, payload: Value, ref: ObjectRef[Any] | None, deadline: float | None) -> mmap:
        """Map the file of a value into memory. Raises FileGone and GetTimeoutError."""
        mapping = self._open(payload.data.decode(), payload.size, deadline)
        return mapping if ref is None else self._share_mapping(ref, payload, mapping)

    def is_away(self, ref: ObjectRef[Any]) -> bool:
        """Whether a ready object is in a file that this node does not have in memory."""
        value = ref._value
        if type(value) is not Value or value.kind != SHARED or ref._cached is not None:
            return False
        name = value.data.decode()
        return prefix_of_name(name) not in (self._prefix, b"") and not self._store.is_here(name)

    def bring(self, ref: ObjectRef[Any], done: Callable[[], None]) -> None:
        """Copy the file of an object that is away (see `is_away`) to this node.

        `done` is called when the file is here or is lost; after a loss, a reader requests the
        object again.
        """
        value = ref._value
        if type(value) is not Value:
            done()  # the object was lost in the meantime
            return
        self._requests.call(PullObject(value.data.decode(), value.size, will_map=False), done)

    def _open(self, name: str, size: int, deadline: float | None) -> mmap:
        """Map the object's file into memory. If another node has the file, fetch it first.

        Raises FileGone and GetTimeoutError.
        """
        try:
            mapping = self._store.open(name)
        except ObjectLostError:
            if prefix_of_name(name) in (self._prefix, b""):
                raise FileGone(name) from None
            return self._pull(name, size, deadline)
        self._node.post(Used(name))
        return mapping

    def _pull(self, name: str, size: int, deadline: float | None) -> mmap:
        """Copy the file to this node and map it.

        The node keeps the copy until this process reports that it has mapped the copy or does not
        want it. So the report is sent without waiting for a flush.
        """
        while True:
            try:
                self._ask_for_copy(name, size, deadline)
                mapping = self._store.open(name)
            except FileGone:
                raise
            except ObjectLostError:
                continue  # this process took too long, or the object's owner released the object
            except BaseException:
                self._node.post(Unwanted(name))
                raise
            self._node.send(Used(name))
            return mapping

    def _ask_for_copy(self, name: str, size: int, deadline: float | None) -> None:
        left_s = None if deadline is None else max(deadline - own_time(), 0.0)
        try:
            self._requests.ask(PullObject(name, size), left_s)
        except ObjectLostError:
            raise FileGone(name) from None
        except GetTimeoutError:
            raise GetTimeoutError(
                f"Get timed out: {size} bytes of the object are still on their way here from "
                f"node {prefix_of_name(name).hex()}."
            ) from None

    def _share_mapping(self, ref: ObjectRef[Any], payload: Value, mapping: mmap) -> mmap:
        """Return one mapping for all threads that read the object at the same time."""
        with self._lock:
            if ref._value is not payload:
                return mapping
            if ref._cached is None:
                ref._cached = mapping
                if type(ref._hold) is FileHold:
                    ref._hold.seen = True
            found: mmap = ref._cached
            return found
