"""The objects in a node's shared memory: credit for writers, spilling, and copies of other nodes'
objects.

This module decides which files may be deleted and which processes must know of it. Its effects read
and write the files, and copy them between nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from phalanx.errors import ObjectStoreFullError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.node.broadcasts import Broadcasts, SourceQuestions
from phalanx.node.dispatch import PeerMessageTable
from phalanx.node.events import NodeEvents
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.node_links import NodeLinks
from phalanx.node.object_room import ObjectRoom, SpillFiles
from phalanx.node.peers import Peer, Peers
from phalanx.objects.file_pool import FilePool
from phalanx.objects.last_readers import LastReaders
from phalanx.objects.names import is_name, prefix_of_name, spare_file, writer_of_name
from phalanx.objects.pins import Pins
from phalanx.objects.pull_queue import Done, PullQueue
from phalanx.objects.store_accounting import StoreAccounting
from phalanx.observe.cluster_events import ArgumentPresent, PullEnded, PullStarted, ResultStored
from phalanx.protocol.copy_messages import CopyMade, Prefetch, SourceFor, SourceFree, WantSource
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.node_messages import (
    Claimed,
    Dropped,
    GivenBack,
    Kept,
    ReadersReported,
    Sealed,
    Settled,
    Spilled,
    Unwanted,
    Used,
)
from phalanx.scheduler.placement.averages import Average

Answer = Callable[[int, Exception | None], None]
_COPIES = b"copies"
"""The name under which the accounting counts copies of other nodes' objects."""
_FILE_POOL = b"file pool"
"""The name under which the accounting counts the files that wait in the pool."""
_PULL_SHARE = 0.7
"""The fraction of the store's capacity that objects on their way here may take. Ray pins the same
fraction for arguments.
"""


class StoreFiles(Protocol):
    """The files of objects, in memory and on disk. No method raises an error for a file that does
    not exist.
    """

    def is_in_memory(self, name: str) -> bool:
        """Whether the object is in shared memory."""
        ...

    def is_here(self, name: str) -> bool:
        """Whether the object is in shared memory or on disk."""
        ...

    def stat(self, name: str) -> tuple[float, int] | None:
        """Return, for a file in memory, when it was written (in seconds since the epoch) and its
        size in bytes; None if it does not exist.
        """
        ...

    def delete(self, name: str) -> None:
        """Delete the object, in memory and on disk."""
        ...

    def delete_spilled(self, name: str) -> None:
        """Delete the object's file on disk."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Rename a file in memory."""
        ...

    def written_by(self, process: bytes) -> list[str]:
        """Return the objects that a process has written, in memory and on disk."""
        ...


class Transfers(Protocol):
    """Copies objects of other nodes to this node."""

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """Copy an object to this node: into memory or, with `on_disk`, onto the disk.
        `ObjectStore.pulled` is called later.

        `spare`: a pooled file that may be overwritten.
        """
        ...

    def release_file(self, name: str) -> None:
        """Forget a copy that this node no longer has."""
        ...


class ObjectStore:
    """Carries out what the accounting decides about objects."""

    def __init__(
        self,
        clock: Callable[[], float],
        capacity_bytes: int,
        *,
        disk: str,
        files: StoreFiles,
        spill_files: SpillFiles,
        transfers: Transfers,
        links: NodeLinks,
        peers: Peers,
        jobs: KnownJobs,
        events: NodeEvents,
    ) -> None:
        """`disk`: the place of spilled objects, for display."""
        self._prefix = prefix = links.prefix
        self._clock = clock
        self._files = files
        self._transfers = transfers
        self._links = links
        self._peers = peers
        self._jobs = jobs
        self._events = events
        self.accounting = StoreAccounting(capacity_bytes)
        self.evictions = 0
        """How many copies were dropped to make room."""
        self.received_bytes = self.sent_bytes = 0
        """The bytes of the copies that came here from other nodes, and the bytes of the copies that
        other nodes have made of objects of this node.
        """
        self.bandwidth = Average()
        """The mean bandwidth, in bytes per second, of objects that came from other nodes."""
        self._unsettled: dict[bytes, set[bytes]] = {}
        """Dead workers, each with the processes that may still have unread messages of the
        worker.
        """
        self._copies: set[str] = set()
        """The objects on this node that other nodes have written."""
        self._promised: dict[str, int] = {}
        """For each copy on its way: the bytes of memory that are kept free for it."""
        self._holders: dict[str, set[bytes]] = {}
        """For each object of this node: the other nodes that have copies."""
        self.broadcasts = Broadcasts(
            prefix, clock, links.send, lambda name: self._holders.get(name, ())
        )
        self.questions = SourceQuestions(clock, links.send, links.is_dead)
        self._last_readers = LastReaders()
        self.file_pool = FilePool(capacity_bytes)
        """Files of dropped copies, kept in memory for the next copies."""
        self._pins = Pins(self._unpinned)
        self._room = ObjectRoom(self.accounting, self._pins, spill_files, self, disk)
        self._pulls = PullQueue(int(_PULL_SHARE * capacity_bytes), self._start_pull, self._pins)

    # ---- messages of processes -------------------------------------------------------------------

    def handle_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for messages of drivers and workers about objects."""
        table.on(Sealed, lambda peer, m: self.sealed(m.name, m.size, peer.peer))
        table.on(Used, lambda peer, m: self.used(m.name, peer.peer))
        table.on(GivenBack, lambda peer, m: self.given_back(m.name, peer.peer))
        table.on(Unwanted, lambda peer, m: self.unwanted(m.name, peer.peer))
        table.on(ReadersReported, lambda peer, m: self.readers_known(m.prefix, peer.peer))
        table.on(Prefetch, lambda peer, m: self.prefetch(m))
        table.on(Claimed, self._local_claimed)
        table.on(Settled, self._local_settled)
        table.on(Dropped, self._local_dropped)
        table.on(Kept, lambda peer, m: self.kept(m.name, peer.peer))

    def handle_from_afar_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for messages that processes of other nodes send about objects of
        this node.
        """
        table.on(Claimed, lambda peer, m: self.claimed(m.name, peer.peer))
        table.on(Settled, lambda peer, m: self.settled(m.worker, peer.peer))
        table.on(Dropped, lambda peer, m: self.dropped(m.name, m.size, peer.peer))

    def handle_from_nodes_in(self, table: PeerMessageTable) -> None:
        """Register the handlers for messages that other nodes send about copies of objects."""
        table.on(CopyMade, lambda peer, m: self.copy_made(m.name, peer.peer[:PREFIX_BYTES]))
        table.on(Dropped, lambda peer, m: self.copy_dropped(m.name))
        broadcasts = self.broadcasts
        table.on(WantSource, lambda peer, m: broadcasts.asked(peer.peer[:PREFIX_BYTES], m))
        table.on(
            SourceFree, lambda peer, m: broadcasts.on_taker_done(m.name, peer.peer[:PREFIX_BYTES])
        )
        table.on(SourceFor, lambda peer, m: self.questions.answered(m))

    def _is_elsewhere(self, prefix: bytes) -> bool:
        return prefix != self._prefix and len(prefix) == PREFIX_BYTES

    def _local_claimed(self, peer: Peer, message: Claimed) -> None:
        prefix = prefix_of_name(message.name)
        if self._is_elsewhere(prefix):
            self._links.send_to(prefix, peer.peer, message)
        else:
            self.claimed(message.name, peer.peer)

    def _local_settled(self, peer: Peer, message: Settled) -> None:
        if self._is_elsewhere(message.worker[:PREFIX_BYTES]):
            self._links.send_to(message.worker, peer.peer, message)
        else:
            self.settled(message.worker, peer.peer)

    def _local_dropped(self, peer: Peer, message: Dropped) -> None:
        prefix = prefix_of_name(message.name)
        if self._is_elsewhere(prefix):
            self._links.send_to(prefix, peer.peer, message)
            self.copy_dropped(message.name)
        else:
            self.dropped(message.name, message.size, peer.peer)

    # ---- objects of this node ----------------------------------------------------------------

    def reserve(self, process: bytes, wanted_bytes: int, answer: Answer) -> None:
        """Give a writer credit, which is a number of bytes that it may write. If necessary, objects
        are spilled first.

        Calls `answer(bytes, None)`, or `answer(0, error)` with an ObjectStoreFullError or an
        OutOfDiskError.
        """

        def room_is_there(error: Exception | None) -> None:
            credit = self.accounting.grant(process, wanted_bytes) if error is None else 0
            answer(credit, error)

        self._room.ask(process, wanted_bytes, room_is_there)

    def sealed(self, name: str, size: int, process: bytes) -> None:
        """Count an object that `process` has written. The object's owner may have dropped it
        already.
        """
        self.accounting.sealed(name, size, process)
        if not self._files.is_in_memory(name):
            self.accounting.dropped(name, 0, process)

    def kept(self, name: str, process: bytes) -> None:
        """Count the file of a dropped object, which `process` keeps for its next object."""
        if not self._files.is_in_memory(name):
            self.dropped(name, 0, process)  # the file was spilled, or contains another object now
            return
        self.accounting.kept(name, process)
        self._drop_at_holders(name)

    def dropped(self, name: str, credit_bytes: int, process: bytes) -> None:
        """Drop an object that no owner has any more. Its copy on disk is dropped, too, even if it
        was made just now.
        """
        self._let_writer_go(name, process)
        self.accounting.dropped(name, credit_bytes, process)
        if self.accounting.spilled_total_bytes:
            self._files.delete_spilled(name)
        self._drop_at_holders(name)
        if process[:PREFIX_BYTES] != self._prefix:
            self._files.delete(name)  # the owner is on another node, and cannot delete the object

    def given_back(self, name: str, owner: bytes) -> None:
        """Handle an object that `owner` has dropped. Its writer may use the file again."""
        claimed_by = self.accounting.owner_of(name)
        if claimed_by not in (owner, b""):
            return
        writer = writer_of_name(name)  # the writer may not have reported the object yet
        if not claimed_by or writer not in self._peers:
            self._end(name, owner)
            return
        self.kept(name, writer)
        self._peers.post(writer, GivenBack(name))

    def _let_writer_go(self, name: str, owner: bytes) -> None:
        """If another process than the owner wrote this object, tell that writer to unmap the
        object's file, which it may keep for its next object.
        """
        writer = self.accounting.writer_of(name)
        if writer != owner and writer in self._peers:
            self._peers.post(writer, Spilled([name]))

    def used(self, name: str, process: bytes) -> None:
        """Note that a process has read an object, or may still read it."""
        self.accounting.used(name)
        self._last_readers.used(name, process)
        self._pins.done(name, process)

    def unwanted(self, name: str, process: bytes) -> None:
        """Note that a process no longer waits for the object of a `pull`."""
        self._pulls.unwanted(name, process)
        self._pins.done(name, process)

    def claimed(self, name: str, owner: bytes) -> None:
        """Note that `owner` owns an object that another process has written here."""
        self.accounting.claimed(name, owner)
        if owner[:PREFIX_BYTES] == self._prefix or not is_name(name):
            return
        found = self._files.stat(name)
        if found is not None:  # otherwise the object was spilled or deleted
            written, size = found
            self._events.record(
                ResultStored, at=written, object=name, bytes=size, owner=owner.hex()
            )

    # ---- effects of making room ------------------------------------------------------------------

    def evict_copy(self, name: str) -> bool:
        """Drop a copy of another node's object. Returns False if the object is not such a copy."""
        if name not in self._copies:
            return False
        self.evictions += 1
        self.copy_dropped(name, may_keep=False)  # the object's own node still has the object
        return True

    def free_pooled_files(self, needed_bytes: int) -> None:
        """Delete pooled files, then files that writers keep, until this number of bytes is free."""
        before = self.accounting.used_bytes
        for spare in self.file_pool.free(needed_bytes):
            self._discard_pooled_file(spare)
        freed = before - self.accounting.used_bytes
        for name, writer in self.accounting.oldest_kept(needed_bytes - freed):
            self._files.delete(name)
            self.accounting.dropped(name, 0, writer)
            self._peers.post(writer, Spilled([name]))

    def spilled(self, name: str, writer: bytes) -> None:
        """Tell the writer that its object was spilled."""
        self._peers.post(writer, Spilled([name]))

    # ---- copies of other nodes' objects ------------------------------------------------------

    def prefetch(self, message: Prefetch) -> None:
        """Copy to this node the objects that a task will read."""
        for name, size in message.objects:
            if not is_name(name):
                continue
            if self._files.is_here(name):
                self._events.record(ArgumentPresent, object=name, bytes=size)
            elif prefix_of_name(name) != self._prefix:
                # An object with the prefix of this node would be lost, which its reader reports.
                self._pulls.want_ahead(name, size)

    def pull(self, name: str, size: int, asker: bytes, done: Done, will_map: bool = True) -> None:
        """Copy an object of another node to this node. `done` is called with the reason of a
        failure, or with "".

        With `will_map`, the copy stays until `asker` reports it as used or as unwanted.
        """

        def ended(failure: str) -> None:
            if will_map and not failure and name in self._copies and self.accounting.holds(name):
                self._pins.add(name, self.accounting.size_of(name), asker, self._clock())
            done(failure)

        if not is_name(name):
            done(f"{name!r} is not the name of an object's file")
        elif self._files.is_here(name):
            ended("")
        else:
            self._pulls.want(name, size, asker, ended)

    @property
    def pinned_bytes(self) -> int:
        """The bytes of copies that cannot be dropped, because their askers have not mapped them
        yet.
        """
        return self._pins.total_bytes

    def _unpinned(self) -> None:
        self._room.proceed()
        self._pulls.proceed()

    def _start_pull(self, name: str, size: int) -> None:
        spare = self.file_pool.take(size)
        self._count_pooled_files()

        def room_is_there(error: Exception | None) -> None:
            if error is None:
                self.accounting.promise(_COPIES, size)
                self._promised[name] = size
                self._begin_pull(name, size, spare)
                return
            self._discard_pooled_file(spare)
            if isinstance(error, ObjectStoreFullError):
                # As with objects written here, copies for which memory has no room go to disk
                # immediately.
                self._begin_pull(name, size, "")
            else:
                self._pulls.ended(name, str(error))

        self._room.ask(_COPIES, size, room_is_there)

    def _begin_pull(self, name: str, size: int, spare: str) -> None:
        def begin(nodes: list[bytes]) -> None:
            self._events.record(PullStarted, object=name, bytes=size, source=nodes[0].hex())
            self._transfers.pull(name, size, nodes, name not in self._promised, spare)

        self.questions.ask(name, size, begin)

    def pulled(self, message: Pulled) -> None:
        """Handle the end of a transfer."""
        if message.ok and message.seconds > 0:
            self.bandwidth = self.bandwidth.with_sample(message.size / message.seconds)
        promised = self._promised.pop(message.name, 0)
        if promised and message.ok and message.size:
            self.accounting.sealed(message.name, message.size, _COPIES)
        else:  # the copy is on disk, was here and counted before, or did not come
            self.accounting.withdraw(_COPIES, promised)
        writer = prefix_of_name(message.name)
        source = self.questions.on_transfer_end(message.name, message.ok)
        if message.ok:
            self.received_bytes += message.size
            self._copies.add(message.name)
            self._links.send(writer, CopyMade(message.name))
        failure = "" if message.ok else message.reason
        self._events.record(
            PullEnded,
            object=message.name,
            bytes=message.size,
            source=source.hex(),
            seconds=message.seconds,
            failure=failure,
        )
        if message.may_pass and not self._links.is_dead(writer):
            self._pulls.unreached(message.name, failure, self._clock())
        else:
            self._pulls.ended(message.name, failure)

    def copy_made(self, name: str, holder: bytes) -> None:
        """Note that another node has a copy of an object of this node."""
        if is_name(name) and self._files.is_here(name):
            self._holders.setdefault(name, set()).add(holder)
            self.sent_bytes += self.accounting.size_of(name)
            self.broadcasts.on_taker_done(name, holder)
        else:
            self._links.send(holder, Dropped(name, 0))

    def copy_dropped(self, name: str, may_keep: bool = True) -> None:
        """Drop a copy that is not needed any more. With `may_keep`, its file may be used for
        another copy.
        """
        if name not in self._copies:
            return
        self._copies.discard(name)
        self._last_readers.dropped(name)
        size = self.accounting.size_of(name)
        self.accounting.dropped(name, 0, _COPIES)
        if not (may_keep and self._files.is_in_memory(name) and self._keep_in_pool(name, size)):
            self._transfers.release_file(name)
            self._files.delete(name)
        self._pins.unpin(name)

    def _keep_in_pool(self, name: str, size: int) -> bool:
        gone = self.file_pool.put(name, size)
        is_kept = name not in gone
        if is_kept:
            self._files.rename(name, spare_file(name))
        for other in gone:
            if other != name:
                self._discard_pooled_file(other)
        self._count_pooled_files()
        return is_kept

    def _count_pooled_files(self) -> None:
        """Count the files that are in the pool now, and no others, as used memory."""
        self.accounting.withdraw(_FILE_POOL, self.accounting.capacity_bytes)
        self.accounting.promise(_FILE_POOL, self.file_pool.total_bytes)

    def _discard_pooled_file(self, spare: str) -> None:
        if spare:
            self._count_pooled_files()
            self._transfers.release_file(spare)
            self._files.delete(spare_file(spare))

    def _drop_at_holders(self, name: str) -> None:
        for holder in sorted(self._holders.pop(name, ())):
            self._links.send(holder, Dropped(name, 0))
        self.broadcasts.forget(name)

    # ---- ends --------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Ask nodes again that could not be reached, and stop waiting for nodes that take too
        long.
        """
        self._pins.tick(now)
        self._pulls.tick(now)
        self.questions.tick(now)
        self.broadcasts.tick(now)

    def node_gone(self, prefix: bytes) -> None:
        """Forget which copies a dead node had, and drop the objects here that its workers owned.

        Copies of the dead node's objects that are here stay while processes may read them. The
        objects of its drivers are dropped when the drivers' jobs end.
        """
        for holders in self._holders.values():
            holders.discard(prefix)
        self.broadcasts.node_gone(prefix)
        self.questions.node_gone(prefix)
        self._pulls.fail_unreached(lambda name: prefix_of_name(name) == prefix)
        for owner in sorted(self.accounting.owners() - self._jobs.drivers()):
            if owner[:PREFIX_BYTES] == prefix:
                self.owner_gone(owner)
        copies = [name for name in self._copies if prefix_of_name(name) == prefix]
        if copies:
            asked = [peer.peer for peer in self._peers.local()]
            self._drop_copies(self._last_readers.node_gone(prefix, copies, asked))

    def readers_known(self, prefix: bytes, process: bytes) -> None:
        """Store a process's report of all objects of a dead node that the process may still
        read.
        """
        self._drop_copies(self._last_readers.reported(prefix, process))

    def _drop_copies(self, names: list[str]) -> None:
        for name in names:
            self.copy_dropped(name)

    def process_gone(self, process: bytes) -> None:
        """Forget a process that has ended."""
        self.accounting.process_gone(process)
        self._room.process_gone(process)
        self._pulls.process_gone(process)
        self._pins.process_gone(process)
        self._drop_copies(self._last_readers.process_gone(process))
        for worker in list(self._unsettled):
            self.settled(worker, process)

    def owner_gone(self, owner: bytes, kept: Collection[str] = ()) -> None:
        """Drop the objects of an owner that has ended, except for those in `kept`.

        The owner was a driver, or a worker of another node. No process reads its objects any more.
        """
        is_ours = owner[:PREFIX_BYTES] == self._prefix
        # otherwise these objects are copies
        written = self._files.written_by(owner) if is_ours else []
        for name in self.accounting.owned(owner, written):
            if name not in kept:
                self._end(name, owner)

    def worker_gone(self, worker: bytes, readers: set[bytes]) -> None:
        """Drop a dead worker's objects once `readers` have read all messages that the worker sent
        them.
        """
        self._unsettled[worker] = readers
        self.settled(worker, b"")

    def settled(self, worker: bytes, reader: bytes) -> None:
        """Note that `reader` has claimed those objects of a dead worker that it owns."""
        readers = self._unsettled.get(worker)
        if readers is None:
            return
        readers.discard(reader)
        if readers:
            return
        del self._unsettled[worker]
        for name in self.accounting.owned(worker, self._files.written_by(worker)):
            self._end(name, worker)

    def _end(self, name: str, owner: bytes) -> None:
        self._let_writer_go(name, owner)
        self.accounting.dropped(name, 0, owner)
        self._drop_at_holders(name)
        self._files.delete(name)
