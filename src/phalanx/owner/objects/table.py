"""The values of objects as one process knows them. The table completes objects, waits for them,
fetches them from their owners, and answers requests for this process's own objects.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from phalanx.errors import ObjectLostError, OwnerDiedError
from phalanx.model.ids import INDEX_BITS, object_id_bytes
from phalanx.objects import failures
from phalanx.objects.file_hold import FileHold
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.objects.lineage import LostHold, Maker
from phalanx.owner.objects.references import References
from phalanx.owner.objects.unread import mark_read
from phalanx.owner.peers.connections import Peers
from phalanx.owner.transport import Connection, NodeLink, Outbox
from phalanx.protocol.messages import FAILED, SHARED, Fetch, Fetched, Payload, Recover, Value
from phalanx.protocol.node_messages import Claimed

NoteMade = Callable[[Sequence[ObjectRef[Any]], str], None]
"""Called with new objects, and with the name of the call by which the program made them."""


class Files(Protocol):
    """The files of large objects, as seen by this process."""

    def hold(self, name: str, size: int) -> FileHold:
        """Return a hold on a file that another process wrote. When the hold goes, the file may be
        deleted.
        """
        ...

    def is_here(self, name: str) -> bool:
        """Whether this node has a file or a copy of the file."""
        ...


class Recovery(Protocol):
    """Makes lost objects of this process again."""

    def need(self, ref: ObjectRef[Any]) -> None:
        """Make this lost object again, because somebody waits for it."""
        ...

    def lost(self, ref: ObjectRef[Any], name: str) -> None:
        """Note that the file `name` of this object is gone."""
        ...


class Callback:
    """A waiter that calls a function when its object is ready."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def notify(self, failed: bool = False) -> None:
        """Call the function, because the object is ready."""
        self._function()


class ObjectTable:
    """The objects of this process, and those objects of other processes that it knows."""

    recovery: Recovery
    """Makes lost objects again. It is set after construction, because it runs tasks, and tasks
    complete objects in this table.
    """

    def __init__(
        self,
        me: bytes,
        peers: Peers,
        outbox: Outbox,
        node: NodeLink,
        files: Files,
        references: References,
        on_stored: Callable[[ObjectRef[Any], Value, bytes], None],
    ) -> None:
        """`on_stored(ref, value, writer)` is called for each object of this process whose value
        another process has written to a file.
        """
        self._me = me
        self._peers = peers
        self._outbox = outbox
        self._node = node
        self._files = files
        self._references = references
        self._on_stored = on_stored
        self.note_made: NoteMade | None = None
        """A function that is called with new objects; None if nobody needs to know where objects
        are made.
        """
        self._fetching: dict[bytes, dict[int, ObjectRef[Any]]] = {}
        """Objects that were requested and have not come yet, by owner and number."""
        self._stale: weakref.WeakKeyDictionary[ObjectRef[Any], Value] = weakref.WeakKeyDictionary()
        """For references to lost objects: the values that they had before."""
        self.in_files: weakref.WeakValueDictionary[str, ObjectRef[Any]] = (
            weakref.WeakValueDictionary()
        )
        """The objects of this process in shared memory, by the names of their files."""

    # ---- values come -------------------------------------------------------------------------

    def put(
        self, number: int, payload: Payload, hold: FileHold | None, inner: Any
    ) -> ObjectRef[Any]:
        """Return a new object of this process with this value. `inner`: the references in the
        value.
        """
        ref = make_ref(self._me, number)
        ref._value = payload
        ref._hold = hold
        ref._inner = inner
        if self.note_made is not None:
            self.note_made([ref], "put object")
        if hold is not None:
            self.in_files[hold.name] = ref
        return ref

    def complete(
        self,
        ref: ObjectRef[Any],
        payload: Payload,
        source: bytes = b"",
        maker: Maker | None = None,
    ) -> None:
        """Set the value of an object, and notify its waiters.

        `source`: the process that made the value. It owns some of the references in the value, and
        has registered this process as a borrower of those. `maker` can make the value again.
        """
        if ref._value is not None:
            # the value came twice, and the first one stays
            if source and type(payload) is not bytes:
                self.discard(payload, source, ref._number >> INDEX_BITS)
            return
        if type(payload) is not bytes:
            if payload.refs:  # type: ignore[union-attr]
                self._references.adopt_inner(ref, payload.refs, source)  # type: ignore[union-attr]
            if payload.kind == SHARED and ref._owner == self._me:  # type: ignore[union-attr]
                self._take_file(ref, payload, source, maker)  # type: ignore[arg-type]
        ref._value = payload
        waiters = ref._waiters
        if waiters is not None:
            ref._waiters = None
            failed = type(payload) is not bytes and payload.kind == FAILED  # type: ignore[union-attr]
            for waiter in waiters:
                waiter.notify(failed)

    def complete_all(self, refs: list[ObjectRef[Any]], values: list[bytes]) -> None:
        """Set the values of objects of this process that are plain pickles, and notify their
        waiters. If successive objects have the same waiter, the waiter is notified once, with the
        number of these objects.
        """
        shared: Any = None
        count = 0
        for ref, value in zip(refs, values, strict=True):
            if ref._value is not None:
                continue
            ref._value = value
            waiters = ref._waiters
            if waiters is None:
                continue
            ref._waiters = None
            if type(waiters) is not tuple:
                for waiter in waiters:
                    waiter.notify(False)
            elif waiters is shared:
                count += 1
            else:
                if count:
                    shared[0].notify_of(count)
                shared, count = waiters, 1
        if count:
            shared[0].notify_of(count)

    def _take_file(
        self, ref: ObjectRef[Any], payload: Value, source: bytes, maker: Maker | None
    ) -> None:
        name = payload.data.decode()
        if type(ref._hold) is not FileHold:  # otherwise this process wrote the file
            ref._hold = self._files.hold(name, payload.size)
        ref._hold.lineage = maker
        self.in_files[name] = ref
        if source:
            self._node.post(Claimed(name))
            self._on_stored(ref, payload, source)

    def discard(self, payload: Payload, source: bytes, task: int) -> None:
        """Release everything that a value holds, because nobody wants the value. The process
        `source` made the value for task number `task`.
        """
        self.complete(make_ref(self._me, task << INDEX_BITS), payload, source)

    def for_sending(self, ref: ObjectRef[Any]) -> Payload:
        """Return the payload of a ready object that will leave this process.

        If the object was lost meanwhile, the old payload is returned. Its reader notices the loss,
        and waits for the object again.
        """
        payload = ref._value
        if payload is None:
            return self._stale[ref]
        if type(payload) is not bytes and payload.kind == SHARED:  # type: ignore[union-attr]
            hold = ref._hold
            if type(hold) is FileHold:
                hold.seen = True
        elif type(payload) is not bytes:
            mark_read(ref)
        return payload

    def add_waiter(self, ref: ObjectRef[Any], waiter: Any) -> None:
        """Call `waiter.notify(failed)` when the object is ready."""
        ref._waiters = [waiter] if ref._waiters is None else [*ref._waiters, waiter]

    # ---- values are asked for ----------------------------------------------------------------

    def fetch(self, ref: ObjectRef[Any]) -> None:
        """If an object has no value, request the value from the object's owner, unless a request is
        open. If the object belongs to this process and is lost, it is made again.
        """
        owner = ref._owner
        if ref._value is not None:
            return
        if owner == self._me:
            if type(ref._hold) is LostHold:
                self.recovery.need(ref)
            return
        waiting = self._fetching.setdefault(owner, {})
        if ref._number in waiting:
            return
        connection = self._peers.peer(owner)
        if connection is None:
            self._owner_died(ref)
            return
        waiting[ref._number] = ref
        connection.send(self._question(ref))

    def _question(self, ref: ObjectRef[Any]) -> Fetch | Recover:
        stale = self._stale.get(ref)
        return Fetch(ref._number) if stale is None else Recover(ref._number, stale.data.decode())

    def fetched(self, connection: Connection, message: Fetched) -> None:
        """Handle an owner's answer to a fetch."""
        ref = self._fetching.get(connection.peer, {}).pop(message.number, None)
        if ref is not None:
            self.complete(ref, message.value)

    def recover(self, ref: ObjectRef[Any], name: str) -> None:
        """Fetch the value again, because the object's file `name` was not found.

        Does nothing if the loss was noticed before.
        """
        if ref._owner == self._me:
            self.recovery.lost(ref, name)
        elif is_in_file(ref, name):
            self.forget_value(ref)
        self.fetch(ref)

    def forget_value(self, ref: ObjectRef[Any]) -> None:
        """Forget the value of an object whose file is lost."""
        stale = ref._value
        assert isinstance(stale, Value)
        self._stale[ref] = stale
        # This comes first, because threads that read without the lock read this field last.
        ref._value = None
        ref._cached = None
        ref._inner = None

    def _owner_died(self, ref: ObjectRef[Any], unreached: str = "") -> None:
        name = ref.hex()
        what = f"could not be reached: {unreached.rstrip('.')}" if unreached else "has died"
        text = f"Object {name} is lost: process {ref._owner.hex()}, which owned it, {what}."
        self.complete(ref, failures.failed(OwnerDiedError(name, text)))

    # ---- others ask --------------------------------------------------------------------------

    def answer_fetch(self, connection: Connection, number: int) -> None:
        """Send another process the value of an object of this process: now, or when it is ready."""
        ref = self._references.lending.exported.get(number)
        if ref is None:
            name = object_id_bytes(self._me, number).hex()
            error = ObjectLostError(name, f"Object {name} is gone: its owner has freed it.")
            connection.post(Fetched(number, failures.failed(error)))
            return
        if ref._value is not None:
            connection.post(Fetched(number, self.for_sending(ref)))
            return
        found = ref

        def ready() -> None:
            self._outbox.post(connection, Fetched(number, self.for_sending(found)))

        self.add_waiter(ref, Callback(ready))
        self.fetch(ref)

    def answer_recover(self, connection: Connection, message: Recover) -> None:
        """Recover an object of this process whose file another process did not find."""
        ref = self._references.lending.exported.get(message.number)
        if ref is not None:
            self.recover(ref, message.name)
        self.answer_fetch(connection, message.number)

    # ---- other processes end, or are out of reach --------------------------------------------

    def wants_of(self, process: bytes) -> bool:
        """Whether this process waits for objects of another process."""
        return bool(self._fetching.get(process))

    def ask_again(self, connection: Connection) -> None:
        """Send again, over this new connection, the requests that the peer did not answer over the
        previous one."""
        for ref in self._fetching.get(connection.peer, {}).values():
            connection.post(self._question(ref))

    def process_gone(self, process: bytes, unreached: str = "") -> None:
        """Fail the objects that this process awaits from a process that has died. If `unreached` is
        not empty, it is the reason why that process could not be reached for too long.
        """
        for ref in self._fetching.pop(process, {}).values():
            self._owner_died(ref, unreached)

    def node_lost(self, prefix: bytes) -> None:
        """Mark the objects whose files were on a dead node as lost. They are made again when they
        are needed.

        `prefix`: the first bytes of the ids of the node's processes.
        """
        start = prefix.hex()
        for name, ref in list(self.in_files.items()):
            if name.startswith(start):
                self.recovery.lost(ref, name)


def is_in_file(ref: ObjectRef[Any], name: str) -> bool:
    """Whether the object's value is in the file with this name."""
    value = ref._value
    return type(value) is Value and value.kind == SHARED and value.data.decode() == name
