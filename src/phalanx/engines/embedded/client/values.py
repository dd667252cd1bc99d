"""This process's objects: packing and reading values, borrowing and lending references."""

from __future__ import annotations

import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.client.reactor import Waiter
from phalanx.engines.embedded.client.reconstruction import Maker, Reconstruction
from phalanx.errors import GetTimeoutError, ObjectLostError, OwnerDiedError
from phalanx.model.ids import INDEX_BITS, PREFIX_BYTES, object_id_bytes
from phalanx.objects import failures
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef, Vanished, make_ref
from phalanx.objects.serialization import INLINE_BYTES, Pickled, deserialize, serialize
from phalanx.objects.shared_memory import SharedHold, SharedStore
from phalanx.owner.borrowing import Lending
from phalanx.protocol.messages import (
    FAILED,
    INLINE,
    SHARED,
    Borrow,
    Fetch,
    Fetched,
    Holds,
    Payload,
    Recover,
    Sync,
    Taken,
    Unborrow,
    Value,
)
from phalanx.protocol.node_messages import Claimed, Used

if TYPE_CHECKING:
    from phalanx.engines.embedded.client.runtime import Runtime
    from phalanx.engines.embedded.connection import Connection


_OPEN_ATTEMPTS = 3
"""A copy that was fetched may be evicted before it is mapped; it is fetched again so often."""


class BorrowHold:
    """Hangs on a borrowed ObjectRef: when it goes, the owner is told."""

    __slots__ = ("count", "number", "owner", "released")

    def __init__(self, owner: bytes, number: int, count: int, released: deque[Any]) -> None:
        self.owner = owner
        self.number = number
        self.count = count
        self.released = released

    def __del__(self) -> None:
        # May run under any lock: only remember it.
        self.released.append((self.owner, self.number, self.count))


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
    """Everything about objects that one process does. Callers hold the runtime's lock where
    they change what other threads see."""

    def __init__(self, runtime: Runtime, store: SharedStore) -> None:
        self._runtime = runtime
        self.store = store
        self.lending = Lending()
        self._borrowed: weakref.WeakValueDictionary[tuple[bytes, int], ObjectRef[Any]] = (
            weakref.WeakValueDictionary()
        )
        self.released: deque[tuple[bytes, int, int]] = deque()
        self._fetching: dict[bytes, dict[int, ObjectRef[Any]]] = {}
        self._forever: list[ObjectRef[Any]] = []
        self._arriving: set[ObjectRef[Any]] = set()
        self._tokens = itertools.count(1)
        self._syncs: dict[int, tuple[bytes, Callable[[], None]]] = {}
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
                self._adopt_inner(ref, payload.refs, source)  # type: ignore[union-attr]
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

    def _adopt_inner(
        self, ref: ObjectRef[Any], inner: list[tuple[bytes, int]], source: bytes
    ) -> None:
        ref._inner = [self._adopt_result(o, n, source) for o, n in inner]
        third = {o for o, _ in inner} - {source, ref._owner, self._runtime.process_id}
        if third and not source:
            # The value's owner holds these references for as long as we hold the value's.
            self._arriving.add(ref)
            self._after_sync(third, lambda: self._arriving.discard(ref))
        elif third:
            # The maker of the value keeps these references until we have registered for them.
            number = ref._number >> INDEX_BITS
            self._after_sync(third, lambda: self._taken(source, number))

    def _taken(self, source: bytes, number: int) -> None:
        connection = self._runtime.known_peer(source)
        if connection is not None:
            self._runtime.post(connection, Taken(number))

    def _after_sync(self, owners: set[bytes], action: Callable[[], None]) -> None:
        """Run `action` once these owners have handled everything sent to them so far."""
        left = [len(owners)]

        def answered() -> None:
            left[0] -= 1
            if not left[0]:
                action()

        for owner in sorted(owners):
            connection = self._runtime.peer(owner)
            if connection is None:
                answered()
                continue
            token = next(self._tokens)
            self._syncs[token] = (owner, answered)
            self._runtime.post(connection, Sync(token))

    def synced(self, token: int) -> None:
        """An owner's answer to Sync."""
        entry = self._syncs.pop(token, None)
        if entry is not None:
            entry[1]()

    def sync(self, owners: set[bytes]) -> None:
        """Wait until these owners have handled everything sent to them. Called without the lock."""
        waiter = Waiter()
        with self._runtime.lock:
            self._after_sync(owners, waiter.finish)
        self._runtime.flush()
        self._runtime.reactor.wait(waiter)

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

    # ---- references that arrive and leave ----------------------------------------------------

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """This process's reference to an object that it learns of; the owner is told."""
        return self._adopt_result(owner, number, b"")

    def _adopt_result(self, owner: bytes, number: int, source: bytes) -> ObjectRef[Any]:
        ref = self.adopt_for_task(owner, number)
        if owner == self._runtime.process_id:
            return ref
        if owner == source:
            if ref._hold is None:
                ref._hold = BorrowHold(owner, number, 1, self.released)
            else:
                ref._hold.count += 1
        else:
            self.keep(ref)
        return ref

    def adopt_for_task(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """The same, for a reference that somebody else keeps alive for now (see `keep`)."""
        if owner == self._runtime.process_id:
            mine = self.lending.exported.get(number)
            if mine is not None:
                return mine
            lost = make_ref(owner, number)
            name = object_id_bytes(owner, number).hex() if number >= 0 else ""
            lost._value = failures.failed(
                ObjectLostError(name, f"Object {name} is gone: all references to it had gone.")
            )
            return lost
        key = (owner, number)
        ref = self._borrowed.get(key)
        if ref is None:
            ref = make_ref(owner, number)
            self._borrowed[key] = ref
        return ref

    def still_borrowed(self, owner: bytes, number: int) -> ObjectRef[Any] | None:
        """The reference to a borrowed object, if anything here still holds it."""
        return self._borrowed.get((owner, number))

    def keep(self, ref: ObjectRef[Any]) -> None:
        """Register with the owner as a borrower, unless that was done."""
        if ref._hold is None and ref._owner != self._runtime.process_id:
            connection = self._runtime.peer(ref._owner)  # may say what is held, but for this
            ref._hold = BorrowHold(ref._owner, ref._number, 1, self.released)
            if connection is not None:
                self._runtime.post(connection, Borrow([ref._number]))

    def export(self, ref: ObjectRef[Any]) -> None:
        """The reference leaves inside a value."""
        if ref._owner == self._runtime.process_id:
            self.lending.exported[ref._number] = ref

    def lend_to(self, refs: Sequence[ObjectRef[Any]], borrower: bytes) -> None:
        """A value with these references goes to `borrower` for good: register it at once."""
        for ref in refs:
            if ref._owner == self._runtime.process_id:
                self.lending.add(ref._number, borrower)

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """The reference left where nobody follows it."""
        self.export(ref)
        self.keep(ref)
        self._forever.append(ref)

    def flush_released(self) -> None:
        """Tell owners which of their objects this process holds no longer."""
        while self.released:
            owner, number, count = self.released.popleft()
            connection = self._runtime.known_peer(owner)
            if connection is not None:
                self._runtime.post(connection, Unborrow([(number, count)]))

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

    def read_from(self, prefix: bytes) -> list[str]:
        """Files of a node's processes that may be read here, of which their owners are not told."""
        values = [ref._value for ref in list(self._borrowed.values())]
        names = [v.data.decode() for v in values if type(v) is Value and v.kind == SHARED]
        return [name for name in names if prefix_of_name(name) == prefix]

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
        ref = self.lending.exported.get(number)
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
        ref = self.lending.exported.get(message.number)
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
        """Whether objects of a process are held here, or answers of it are waited for."""
        waits = any(owner == process for owner, _ in self._syncs.values())
        return waits or bool(self._fetching.get(process) or self._held_of(process))

    def say_anew(self, connection: Connection) -> None:
        """Tell the process there, first of all, what we hold of its own, and ask for what it did
        not answer over the connection before."""
        process = connection.peer
        held = self._held_of(process)  # alive from here on
        for _ in range(len(self.released)):  # of what has gone the owner is not told at all
            entry = self.released.popleft()
            if entry[0] != process:
                self.released.append(entry)
        connection.post(Holds([(ref._number, ref._hold.count) for ref in held]))
        for ref in self._fetching.get(process, {}).values():
            connection.post(self._question(ref))
        for token, (owner, _) in self._syncs.items():
            if owner == process:
                connection.post(Sync(token))

    def _held_of(self, owner: bytes) -> list[ObjectRef[Any]]:
        borrowed = list(self._borrowed.values())
        return [ref for ref in borrowed if ref._owner == owner and ref._hold is not None]

    def process_gone(self, process: bytes, unreached: str = "") -> None:
        """A process died, or is given up because it was `unreached` for too long: its objects are
        lost, and it holds none of ours."""
        self.lending.process_gone(process)
        for ref in self._fetching.pop(process, {}).values():
            self._owner_died(ref, unreached)
        for token in [t for t, (owner, _) in self._syncs.items() if owner == process]:
            self.synced(token)

    def counts(self) -> dict[str, int]:
        """Figures for people and tests."""
        return {
            "lent": len(self.lending),
            "borrowed": len(self._borrowed),
            "pinned": len(self._forever),
        }
