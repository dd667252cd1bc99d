"""References of this process to objects of other processes, and references of other processes to
this process's objects.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

from phalanx.errors import ObjectLostError
from phalanx.model.ids import INDEX_BITS, object_id_bytes
from phalanx.objects import failures
from phalanx.objects.names import prefix_of_name
from phalanx.objects.reference import ObjectRef, make_ref
from phalanx.owner.objects.lending import Lending
from phalanx.owner.objects.syncs import Syncs
from phalanx.owner.peers.connections import Peers
from phalanx.owner.transport import Connection, Outbox
from phalanx.protocol.messages import SHARED, Borrow, Holds, Taken, Unborrow, Value


class BorrowHold:
    """A hold on a borrowed ObjectRef. When the reference is gone, the hold tells the owner."""

    __slots__ = ("count", "number", "owner", "released")

    def __init__(self, owner: bytes, number: int, count: int, released: deque[Any]) -> None:
        self.owner = owner
        self.number = number
        self.count = count
        """How many registrations the owner has counted for the reference."""
        self.released = released

    def __del__(self) -> None:
        # This may run while any lock is held, so it only records the release.
        self.released.append((self.owner, self.number, self.count))


class References:
    """The objects that this process borrows or lends."""

    def __init__(self, me: bytes, peers: Peers, outbox: Outbox) -> None:
        self._me = me
        self._peers = peers
        self._outbox = outbox
        self.lending = Lending()
        self.syncs = Syncs(peers, outbox)
        self._borrowed: weakref.WeakValueDictionary[tuple[bytes, int], ObjectRef[Any]] = (
            weakref.WeakValueDictionary()
        )
        self.released: deque[tuple[bytes, int, int]] = deque()
        """Borrowed objects whose last reference has gone, as (owner, number, registrations)."""
        self._forever: list[ObjectRef[Any]] = []
        self._arriving: set[ObjectRef[Any]] = set()
        """Objects whose values contain references to objects of third processes, with which this
        process is just registering.
        """

    # ---- references that arrive --------------------------------------------------------------

    def adopt(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return this process's reference to an object. If the process is not yet registered as a
        borrower with the object's owner, register it.
        """
        return self._adopt_result(owner, number, b"")

    def _adopt_result(self, owner: bytes, number: int, source: bytes) -> ObjectRef[Any]:
        ref = self.adopt_for_task(owner, number)
        if owner == self._me:
            return ref
        if owner == source:  # the sender registered this process when it sent the value
            if ref._hold is None:
                ref._hold = BorrowHold(owner, number, 1, self.released)
            else:
                ref._hold.count += 1
        else:
            self.keep(ref)
        return ref

    def adopt_for_task(self, owner: bytes, number: int) -> ObjectRef[Any]:
        """Return a reference as `adopt` does, but without registering. For now, another process
        keeps the object alive; `keep` registers later.
        """
        if owner == self._me:
            mine = self.lending.exported.get(number)
            if mine is not None:
                return mine
            lost = make_ref(owner, number)
            name = object_id_bytes(owner, number).hex() if number >= 0 else ""
            lost._value = failures.failed(
                ObjectLostError(name, f"Object {name} is gone: all references to it are gone.")
            )
            return lost
        key = (owner, number)
        ref = self._borrowed.get(key)
        if ref is None:
            ref = make_ref(owner, number)
            self._borrowed[key] = ref
        return ref

    def still_borrowed(self, owner: bytes, number: int) -> ObjectRef[Any] | None:
        """Return the reference to a borrowed object, if this process still holds one."""
        return self._borrowed.get((owner, number))

    def keep(self, ref: ObjectRef[Any]) -> None:
        """Register as a borrower with the object's owner, unless this process is registered
        already.
        """
        if ref._hold is None and ref._owner != self._me:
            # This comes before the hold is set, because a connection that is made now begins with a
            # declaration of all holds.
            connection = self._peers.peer(ref._owner)
            ref._hold = BorrowHold(ref._owner, ref._number, 1, self.released)
            if connection is not None:
                self._outbox.post(connection, Borrow([ref._number]))

    def adopt_inner(
        self, ref: ObjectRef[Any], inner: list[tuple[bytes, int]], source: bytes
    ) -> None:
        """Adopt the references in the value of `ref`, which the process `source` made."""
        ref._inner = [self._adopt_result(o, n, source) for o, n in inner]
        third = {o for o, _ in inner} - {source, ref._owner, self._me}
        if third and not source:
            # The value's owner holds these references for as long as this process holds the value's
            # reference.
            self._arriving.add(ref)
            self.syncs.after(third, lambda: self._arriving.discard(ref))
        elif third:
            # The maker of the value keeps these references until this process has registered as
            # their borrower.
            number = ref._number >> INDEX_BITS
            self.syncs.after(third, lambda: self._taken(source, number))

    def _taken(self, source: bytes, number: int) -> None:
        connection = self._peers.known(source)
        if connection is not None:
            self._outbox.post(connection, Taken(number))

    # ---- references that leave ---------------------------------------------------------------

    def export(self, ref: ObjectRef[Any]) -> None:
        """Note that the reference leaves this process inside a value."""
        if ref._owner == self._me:
            self.lending.exported[ref._number] = ref

    def lend_to(self, refs: Sequence[ObjectRef[Any]], borrower: bytes) -> None:
        """Register `borrower` for the references in a value that it will keep, without waiting for
        its message.
        """
        for ref in refs:
            if ref._owner == self._me:
                self.lending.add(ref._number, borrower)

    def pin_forever(self, ref: ObjectRef[Any]) -> None:
        """Keep a reference for ever, because it has left this process in a way that cannot be
        followed.
        """
        self.export(ref)
        self.keep(ref)
        self._forever.append(ref)

    def flush_released(self) -> None:
        """Tell owners which of their objects this process no longer holds."""
        while self.released:
            owner, number, count = self.released.popleft()
            connection = self._peers.known(owner)
            if connection is not None:
                self._outbox.post(connection, Unborrow([(number, count)]))

    def read_from(self, prefix: bytes) -> list[str]:
        """Return the files of a node that this process may be reading. The owners of the files need
        not know that.
        """
        values = [ref._value for ref in list(self._borrowed.values())]
        names = [v.data.decode() for v in values if type(v) is Value and v.kind == SHARED]
        return [name for name in names if prefix_of_name(name) == prefix]

    # ---- connections that end while both processes live --------------------------------------

    def holds_of(self, process: bytes) -> bool:
        """Whether this process holds objects of that process, or waits for its answer to a Sync."""
        return self.syncs.are_open(process) or bool(self._held_of(process))

    def declare_holds(self, connection: Connection) -> None:
        """Declare which objects of the other process are held here. This is the first message on a
        new connection.
        """
        process = connection.peer
        held = self._held_of(process)  # from here on, these references stay alive
        for _ in range(len(self.released)):  # objects that no longer exist are not declared at all
            entry = self.released.popleft()
            if entry[0] != process:
                self.released.append(entry)
        connection.post(Holds([(ref._number, ref._hold.count) for ref in held]))
        self.syncs.send_again(connection)

    def _held_of(self, owner: bytes) -> list[ObjectRef[Any]]:
        borrowed = list(self._borrowed.values())
        return [ref for ref in borrowed if ref._owner == owner and ref._hold is not None]

    def process_gone(self, process: bytes) -> None:
        """Forget a process that died or counts as dead: it no longer holds objects of this
        process.
        """
        self.lending.process_gone(process)
        self.syncs.process_gone(process)

    def counts(self) -> dict[str, int]:
        """Return numbers for display and tests."""
        return {
            "lent": len(self.lending),
            "borrowed": len(self._borrowed),
            "pinned": len(self._forever),
        }
