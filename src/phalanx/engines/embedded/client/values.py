"""This process's objects: values packed, read, waited for, and told to who asks for them."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.client.reconstruction import Maker, Reconstruction
from phalanx.errors import GetTimeoutError, ObjectLostError, OwnerDiedError
from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, object_id_bytes
from phalanx.objects import failures
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef, Vanished, make_ref
from phalanx.objects.serialization import INLINE_BYTES, Pickled, deserialize, serialize
from phalanx.objects.shared_memory import SharedHold, SharedStore
from phalanx.protocol.messages import (
    FAILED,
    INLINE,
    SHARED,
    Fetch,
    Fetched,
    Payload,
    Recover,
    Value,
)
from phalanx.protocol.node_messages import Claimed, Used

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.processes.connection import Connection


_OPEN_ATTEMPTS = 3
"""A copy that was fetched may be evicted before it is mapped; it is fetched again so often."""


class FileGone(Exception):
    """The file of an object's value is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Callback:
    """Stands among an object's waiters and calls a function when it is there."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def notify(self, failed: bool = False) -> None:
        """The object is there."""
        self._function()


class Values:
    """The values of objects as one process has them. Callers hold the runtime's lock where they
    change what other threads see."""

    def __init__(self, runtime: Runtime, store: SharedStore) -> None:
        self._runtime = runtime
        self.store = store
        self._fetching: dict[bytes, dict[int, ObjectRef[Any]]] = {}
        self.reconstruction = Reconstruction(runtime)
        self._stale: weakref.WeakKeyDictionary[ObjectRef[Any], Value] = weakref.WeakKeyDictionary()
        """What references that are waited for again held before."""

    # ---- packing -----------------------------------------------------------------------------

    def pack(self, value: Any) -> tuple[Payload, SharedHold | None, list[ObjectRef[Any]] | None]:
        """A value ready to travel: (payload, hold on its shared memory, references inside)."""
        pickled = serialize(value)
        if type(pickled) is bytes:
            if len(pickled) <= INLINE_BYTES:
                return pickled, None, None
            shared, hold = self.store.write(pickled, ())
            return shared, hold, None
        return self._pack_parts(pickled)  # type: ignore[arg-type]

    def _pack_parts(
        self, pickled: Pickled
    ) -> tuple[Payload, SharedHold | None, list[ObjectRef[Any]] | None]:
        refs = [(r._owner, r._number) for r in pickled.refs]
        size = len(pickled.data)
        for buffer in pickled.buffers:
            size += buffer.raw().nbytes
        hold = None
        if size <= INLINE_BYTES:
            buffers = [bytes(b.raw()) for b in pickled.buffers]
            packed = Value(INLINE, pickled.data, buffers, refs)
        else:
            packed, hold = self.store.write(pickled.data, pickled.buffers)
            packed.refs = refs
        return packed, hold, pickled.refs or None

    def put(self, value: Any) -> ObjectRef[Any]:
        """A new object of this process."""
        payload, hold, refs = self.pack(value)
        ref = make_ref(self._runtime.process_id, self._runtime.next_number())
        ref._value = payload
        ref._hold = hold
        ref._inner = refs
        if hold is not None:
            self.reconstruction.files[hold.name] = ref
        return ref

    # ---- arriving and reading ----------------------------------------------------------------

    def complete(
        self,
        ref: ObjectRef[Any],
        payload: Payload,
        source: bytes = b"",
        maker: Maker | None = None,
    ) -> None:
        """The value is there. `source` is the process that made it: it has registered us already
        as a borrower of what it owns. `maker` can make it again. Wakes who waits."""
        if ref._value is not None:
            if source and type(payload) is not bytes:  # it came twice: the first one stays
                self.discard(payload, source, ref._number >> INDEX_BITS)
            return
        if type(payload) is not bytes:
            if payload.refs:  # type: ignore[union-attr]
                self._runtime.references.adopt_inner(ref, payload.refs, source)  # type: ignore[union-attr]
            if payload.kind == SHARED and ref._owner == self._runtime.process_id:  # type: ignore[union-attr]
                self._take_file(ref, payload, source, maker)  # type: ignore[arg-type]
        ref._value = payload
        waiters = ref._waiters
        if waiters is not None:
            ref._waiters = None
            failed = type(payload) is not bytes and payload.kind == FAILED  # type: ignore[union-attr]
            for waiter in waiters:
                waiter.notify(failed)

    def _take_file(
        self, ref: ObjectRef[Any], payload: Value, source: bytes, maker: Maker | None
    ) -> None:
        name = payload.data.decode()
        if type(ref._hold) is not SharedHold:  # else this process wrote it
            ref._hold = SharedHold(self.store, name, payload.size, None)
        ref._hold.lineage = maker
        self.reconstruction.files[name] = ref
        if source:
            self._runtime.post(self._runtime.node, Claimed(name))
            if source[:PREFIX_BYTES] != self._runtime.process_id[:PREFIX_BYTES]:
                self._runtime.tasks.locality.stored(ref, payload)

    def discard(self, payload: Payload, source: bytes, task: int) -> None:
        """Nobody wants this value of `task` that `source` made: free what it holds."""
        self.complete(make_ref(self._runtime.process_id, task << INDEX_BITS), payload, source)

    def read(self, ref: ObjectRef[Any], deadline: float | None = None) -> Any:
        """The value of a ready reference. Raises its error, Vanished after it was asked for
        again because it is lost, or GetTimeoutError when it did not come here by `deadline`."""
        payload = ref._value
        if type(payload) is bytes:
            return deserialize(payload)
        if payload is None:
            raise Vanished
        try:
            return self.read_payload(payload, ref, deadline=deadline)  # type: ignore[arg-type]
        except FileGone as gone:
            with self._runtime.lock:
                self.recover(ref, gone.name)
            raise Vanished from None

    def read_payload(
        self,
        payload: Value,
        ref: ObjectRef[Any] | None = None,
        inner: Sequence[ObjectRef[Any]] = (),
        deadline: float | None = None,
    ) -> Any:
        """The value of a payload that is more than plain bytes. Raises its error, or FileGone."""
        mapping = None
        if ref is not None:
            inner = ref._inner or ()
            mapping = ref._cached
            if ref._value is not payload:
                raise Vanished  # lost meanwhile: what was just read is not of this payload
        if payload.kind == INLINE:
            return deserialize(payload.data, payload.buffers, inner)
        if payload.kind == FAILED:
            raise failures.load(payload.data)
        if mapping is None:
            name = payload.data.decode()
            mapping = self._open(name, payload.size, deadline)
            self._runtime.post(self._runtime.node, Used(name))
            if ref is not None:
                mapping = self._share_mapping(ref, payload, mapping)
        data, buffers = self.store.parts(mapping)
        return deserialize(data, buffers, inner)

    def _open(self, name: str, size: int, deadline: float | None) -> mmap:
        """The object's file, mapped; fetched first when another node has it. Raises FileGone, or
        GetTimeoutError."""
        for _ in range(_OPEN_ATTEMPTS):
            try:
                return self.store.open(name)
            except ObjectLostError:
                if prefix_of_name(name) in (self._runtime.process_id[:PREFIX_BYTES], b""):
                    break
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                self._runtime.requests.ask("pull", left_s, name=name, size=size)
            except ObjectLostError:
                break
            except GetTimeoutError:
                raise GetTimeoutError(
                    f"Get timed out: {size} bytes of the object are still on their way here from "
                    f"node {prefix_of_name(name).hex()}."
                ) from None
        raise FileGone(name)

    def _share_mapping(self, ref: ObjectRef[Any], payload: Value, mapping: mmap) -> mmap:
        """Threads that read at once have one mapping together."""
        with self._runtime.lock:
            if ref._value is not payload:
                return mapping
            if ref._cached is None:
                ref._cached = mapping
                if isinstance(ref._hold, SharedHold):
                    ref._hold.view = weakref.ref(mapping)
            found: mmap = ref._cached
            return found

    def for_sending(self, ref: ObjectRef[Any]) -> Payload:
        """A ready object's payload, about to leave this process. One that got lost since then
        leaves as it was: its reader says so, and waits for it again."""
        payload = ref._value
        if payload is None:
            return self._stale[ref]
        if type(payload) is not bytes and payload.kind == SHARED:  # type: ignore[union-attr]
            hold = ref._hold
            if isinstance(hold, SharedHold):
                hold.seen = True
        return payload

    # ---- fetching ----------------------------------------------------------------------------

    def fetch(self, ref: ObjectRef[Any]) -> None:
        """See to it that the value comes: ask the owner of a borrowed object, once; have one of
        ours made again that is lost."""
        owner = ref._owner
        if ref._value is not None:
            return
        if owner == self._runtime.process_id:
            self.reconstruction.need(ref)
            return
        waiting = self._fetching.setdefault(owner, {})
        if ref._number in waiting:
            return
        connection = self._runtime.peer(owner)
        if connection is None:
            self._owner_died(ref)
            return
        waiting[ref._number] = ref
        connection.send(self._question(ref))

    def _question(self, ref: ObjectRef[Any]) -> Fetch | Recover:
        stale = self._stale.get(ref)
        return Fetch(ref._number) if stale is None else Recover(ref._number, stale.data.decode())

    def recover(self, ref: ObjectRef[Any], name: str) -> None:
        """The file `name`, this object's value, is not there: ask for the value again. Nothing
        happens when somebody has done so."""
        if ref._owner == self._runtime.process_id:
            self.reconstruction.lost(ref, name)
        else:
            payload = ref._value
            if type(payload) is Value and payload.kind == SHARED and payload.data.decode() == name:
                self.forget_value(ref)
        self.fetch(ref)

    def forget_value(self, ref: ObjectRef[Any]) -> None:
        """The value in shared memory is lost: the object is not there."""
        stale = ref._value
        assert isinstance(stale, Value)
        self._stale[ref] = stale
        ref._value = None  # first: who reads without the lock looks at it last
        ref._cached = None
        ref._inner = None

    def node_lost(self, prefix: bytes) -> None:
        """A node is gone whose processes' ids begin with `prefix`: our objects that its processes
        wrote are lost, and made again when somebody needs them."""
        self.reconstruction.node_lost(prefix)

    def _owner_died(self, ref: ObjectRef[Any], unreached: str = "") -> None:
        name = ref.hex()
        what = f"could not be reached: {unreached.rstrip('.')}" if unreached else "has died"
        text = f"Object {name} is lost: process {ref._owner.hex()}, which owned it, {what}."
        self.complete(ref, failures.failed(OwnerDiedError(name, text)))

    def fetched(self, connection: Connection, message: Fetched) -> None:
        """An owner's answer."""
        ref = self._fetching.get(connection.peer, {}).pop(message.number, None)
        if ref is not None:
            self.complete(ref, message.value)

    def answer_fetch(self, connection: Connection, number: int) -> None:
        """Another process wants the value of an object of ours."""
        ref = self._runtime.references.lending.exported.get(number)
        if ref is None:
            name = object_id_bytes(self._runtime.process_id, number).hex()
            error = ObjectLostError(name, f"Object {name} is gone: its owner has freed it.")
            connection.post(Fetched(number, failures.failed(error)))
            return
        if ref._value is not None:
            connection.post(Fetched(number, self.for_sending(ref)))
            return
        found = ref

        def ready() -> None:
            self._runtime.post(connection, Fetched(number, self.for_sending(found)))

        self.add_waiter(ref, Callback(ready))
        self.fetch(ref)

    def answer_recover(self, connection: Connection, message: Recover) -> None:
        """Another process did not find the file of an object of ours."""
        ref = self._runtime.references.lending.exported.get(message.number)
        if ref is not None:
            self.recover(ref, message.name)
        self.answer_fetch(connection, message.number)

    def add_waiter(self, ref: ObjectRef[Any], waiter: Any) -> None:
        """`waiter.notify()` is called once the object is there. The caller holds the lock."""
        if ref._waiters is None:
            ref._waiters = [waiter]
        else:
            ref._waiters.append(waiter)

    # ---- connections that end while both processes live --------------------------------------

    def wants_of(self, process: bytes) -> bool:
        """Whether objects of a process are waited for here."""
        return bool(self._fetching.get(process))

    def ask_anew(self, connection: Connection) -> None:
        """Ask the process there for what it did not answer over the connection before."""
        for ref in self._fetching.get(connection.peer, {}).values():
            connection.post(self._question(ref))

    def process_gone(self, process: bytes, unreached: str = "") -> None:
        """A process died, or is given up because it was `unreached` for too long: its objects are
        lost."""
        for ref in self._fetching.pop(process, {}).values():
            self._owner_died(ref, unreached)
