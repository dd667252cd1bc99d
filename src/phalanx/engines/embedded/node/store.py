"""The node's side of shared memory: credit for writers, spilling to disk when it runs out, and
copies of other nodes' objects."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from phalanx.engines.embedded.node.room import Copier, Room, ThreadCopier
from phalanx.errors import ObjectStoreFullError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.objects.directory import StoreLedger
from phalanx.objects.last_readers import LastReaders
from phalanx.objects.names import is_name, prefix_of_name, spare_file
from phalanx.objects.pulling import Done, PullQueue
from phalanx.objects.spares import Spares
from phalanx.observe.cluster_events import ArgumentPresent, PullEnded, PullStarted
from phalanx.protocol.cluster_messages import CopyMade, Prefetch
from phalanx.protocol.gateway_messages import Pulled
from phalanx.protocol.node_messages import Dropped, Spilled

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell


Answer = Callable[[int, Exception | None], None]
_COPIES = b"copies"
"""The writer of copies, as the ledger knows it."""
_SPARES = b"spares"
"""Who keeps the files of copies that are gone, as the ledger knows it."""
_PULL_SHARE = 0.7
"""Of the store's capacity, for what is on its way here (Ray pins as much for arguments)."""


class NodeStore:
    """Runs what the ledger decides."""

    def __init__(self, shell: NodeShell, copier: Copier | None = None) -> None:
        """`copier` None: threads beside the node's loop."""
        self._shell = shell
        self.ledger = StoreLedger(shell.config.object_store_bytes)
        self._unsettled: dict[bytes, set[bytes]] = {}
        """Dead workers, and who may still read from their connections."""
        self._copies: set[str] = set()
        """Objects here that were written on other nodes."""
        self._promised: dict[str, int] = {}
        """Bytes of memory that are kept free for copies on their way."""
        self._holders: dict[str, set[bytes]] = {}
        """Nodes that have copies of this node's objects."""
        self._last_readers = LastReaders()
        self.spares = Spares(self.ledger.capacity_bytes)
        """Files of copies that are gone, in memory, for the next."""
        copier = copier or ThreadCopier(shell.loop)
        self._room = Room(self.ledger, shell.session, self, copier)
        self.pulls = PullQueue(int(_PULL_SHARE * self.ledger.capacity_bytes), self._start_pull)

    def reserve(self, process: bytes, wanted_bytes: int, answer: Answer) -> None:
        """Credit for a writer, after spilling what must go: `answer(bytes, None)`, or with an
        ObjectStoreFullError or OutOfDiskError."""

        def there_is_room(error: Exception | None) -> None:
            credit = self.ledger.grant(process, wanted_bytes) if error is None else 0
            answer(credit, error)

        self._room.ask(process, wanted_bytes, there_is_room)

    def evict_copy(self, name: str) -> bool:
        """See Evicts."""
        if name not in self._copies:
            return False
        self.copy_dropped(name, may_keep=False)  # its node has it still
        return True

    def free_spares(self, needed_bytes: int) -> None:
        """See Evicts."""
        for spare in self.spares.free(needed_bytes):
            self._discard_spare(spare)

    def spilled(self, name: str, writer: bytes) -> None:
        """See Evicts."""
        peer = self._shell.peers.get(writer)
        if peer is not None:
            peer.post(Spilled([name]))

    def sealed(self, name: str, size: int, process: bytes) -> None:
        """`process` wrote an object. Its owner, another process, may have dropped it already."""
        self.ledger.sealed(name, size, process)
        if not os.path.exists(os.path.join(self._shell.session.shared, name)):
            self.ledger.dropped(name, 0, process)

    def dropped(self, name: str, credit_bytes: int, process: bytes) -> None:
        """An object is gone; so is its copy on disk, even one made while it went."""
        self.ledger.dropped(name, credit_bytes, process)
        if self.ledger.spilled_total_bytes:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._shell.session.spill, name))

        self._tell_holders(name)
        if process[:PREFIX_BYTES] != self._shell.prefix:
            self._unlink(name)  # its owner is on another node, and cannot

    def _unlink(self, name: str) -> None:
        session = self._shell.session
        for place in (session.shared, session.spill):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(place, name))

    def used(self, name: str, process: bytes) -> None:
        """A process has read an object, or may still."""
        self.ledger.used(name)
        self._last_readers.used(name, process)

    def claimed(self, name: str, owner: bytes) -> None:
        """`owner` owns an object that another process wrote here."""
        self.ledger.claimed(name, owner)
        if is_name(name):
            self._shell.happened.claimed(os.path.join(self._shell.session.shared, name), owner)

    # ---- objects of other nodes --------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether the object's file is on this node."""
        session = self._shell.session
        return any(os.path.exists(os.path.join(p, name)) for p in (session.shared, session.spill))

    def prefetch(self, message: Prefetch) -> None:
        """A task will read these."""
        for name, size in message.objects:
            if not is_name(name):
                continue
            if self.has(name):
                self._shell.happened.record(ArgumentPresent, object=name, bytes=size)
            elif prefix_of_name(name) != self._shell.prefix:  # else it is lost: its reader says so
                self.pulls.want(name, size, None)

    def pull(self, name: str, size: int, done: Done) -> None:
        """Have a copy of another node's object here; `done` is called with why not, or ""."""
        if not is_name(name):
            done(f"{name!r} is no name of an object's file")
        elif self.has(name):
            done("")
        else:
            self.pulls.want(name, size, done)

    def _start_pull(self, name: str, size: int) -> None:
        spare = self._take_spare(size)

        def there_is_room(error: Exception | None) -> None:
            if error is None:
                self.ledger.promise(_COPIES, size)
                self._promised[name] = size
            else:
                self._discard_spare(spare)
            if error is None or isinstance(error, ObjectStoreFullError):
                # As what is written here: more than memory holds lies on disk at once.
                self._begin_pull(name, size, spare if error is None else "")
            else:
                self.pulls.ended(name, str(error))

        self._room.ask(_COPIES, size, there_is_room)

    def _begin_pull(self, name: str, size: int, spare: str) -> None:
        source = prefix_of_name(name)
        self._shell.happened.record(PullStarted, object=name, bytes=size, source=source.hex())
        self._shell.member.pull(name, size, [source], name not in self._promised, spare)

    def _take_spare(self, size: int) -> str:
        spare = self.spares.take(size)
        self._count_spares()
        return spare

    def _count_spares(self) -> None:
        """Spare files count as used, as far as they do not become objects."""
        self.ledger.withdraw(_SPARES, self.ledger.capacity_bytes)
        self.ledger.promise(_SPARES, self.spares.total_bytes)

    def _discard_spare(self, spare: str) -> None:
        if spare:
            self._count_spares()
            self._shell.member.let_go(spare)
            self._unlink(spare_file(spare))

    def pulled(self, message: Pulled) -> None:
        """A transfer has ended."""
        promised = self._promised.pop(message.name, 0)
        if promised and message.ok and message.size:
            self.ledger.sealed(message.name, message.size, _COPIES)
        else:  # it lies on disk, or was here and is counted, or did not come
            self.ledger.withdraw(_COPIES, promised)
        if message.ok:
            self._copies.add(message.name)
            self._shell.others.send(prefix_of_name(message.name), CopyMade(message.name))
        failure = "" if message.ok else message.reason
        self._shell.happened.record(
            PullEnded,
            object=message.name,
            bytes=message.size,
            source=prefix_of_name(message.name).hex(),
            seconds=message.seconds,
            failure=failure,
        )
        if message.may_pass and not self._shell.others.is_dead(prefix_of_name(message.name)):
            self.pulls.unreached(message.name, failure, self._shell.clock())
        else:
            self.pulls.ended(message.name, failure)

    def copy_made(self, name: str, holder: bytes) -> None:
        """Another node has a copy of an object of this one."""
        if is_name(name) and self.has(name):
            self._holders.setdefault(name, set()).add(holder)
        else:
            self._shell.others.send(holder, Dropped(name, 0))

    def copy_dropped(self, name: str, may_keep: bool = True) -> None:
        """A copy here is of no use any more; its file may be for another."""
        if name in self._copies:
            self._copies.discard(name)
            self._last_readers.dropped(name)
            size = self.ledger.size_of(name)
            self.ledger.dropped(name, 0, _COPIES)
            path = os.path.join(self._shell.session.shared, name)
            if not (may_keep and os.path.exists(path) and self._keep_spare(name, size)):
                self._shell.member.let_go(name)
                self._unlink(name)

    def _keep_spare(self, name: str, size: int) -> bool:
        gone = self.spares.put(name, size)
        is_kept = name not in gone
        if is_kept:
            shared = self._shell.session.shared
            os.rename(os.path.join(shared, name), os.path.join(shared, spare_file(name)))
        for other in gone:
            if other != name:
                self._discard_spare(other)
        self._count_spares()
        return is_kept

    def _tell_holders(self, name: str) -> None:
        for holder in self._holders.pop(name, ()):
            self._shell.others.send(holder, Dropped(name, 0))

    def node_gone(self, prefix: bytes) -> None:
        """A node died: its copies are gone, and what its workers owned here. Copies of its
        objects stay while somebody may read them; its drivers' jobs end by themselves."""
        for holders in self._holders.values():
            holders.discard(prefix)
        self.pulls.gone(lambda name: prefix_of_name(name) == prefix)
        drivers = {known.driver for known in self._shell.jobs.known.values()}
        for owner in self.ledger.owners() - drivers:
            if owner[:PREFIX_BYTES] == prefix:
                self.owner_gone(owner)
        copies = [name for name in self._copies if prefix_of_name(name) == prefix]
        if copies:
            asked = [connection.peer for connection in self._shell.local_peers()]
            self._drop_copies(self._last_readers.node_gone(prefix, copies, asked))

    def readers_told(self, prefix: bytes, process: bytes) -> None:
        """A process has named all that it may still read of a dead node's objects."""
        self._drop_copies(self._last_readers.told(prefix, process))

    def _drop_copies(self, names: list[str]) -> None:
        for name in names:
            self.copy_dropped(name)

    def process_gone(self, process: bytes) -> None:
        """A process ended."""
        self.ledger.process_gone(process)
        self._room.process_gone(process)
        self._drop_copies(self._last_readers.process_gone(process))
        for worker in list(self._unsettled):
            self.settled(worker, process)

    def owner_gone(self, owner: bytes, kept: Collection[str] = ()) -> None:
        """An owner has ended that nobody reads from any more, a driver or a worker of another
        node: what it has here goes, but for what is `kept`."""
        is_ours = owner[:PREFIX_BYTES] == self._shell.prefix
        written = self._written_by(owner) if is_ours else []  # else those are copies
        for name in self.ledger.owned(owner, written):
            if name not in kept:
                self._end(name, owner)

    def worker_gone(self, worker: bytes, readers: set[bytes]) -> None:
        """A worker ended: its objects go once `readers` have read all that it sent them."""
        self._unsettled[worker] = readers
        self.settled(worker, b"")

    def settled(self, worker: bytes, reader: bytes) -> None:
        """`reader` has claimed what is its own of a dead worker's objects."""
        readers = self._unsettled.get(worker)
        if readers is None:
            return
        readers.discard(reader)
        if readers:
            return
        del self._unsettled[worker]
        for name in self.ledger.owned(worker, self._written_by(worker)):
            self._end(name, worker)

    def _written_by(self, process: bytes) -> list[str]:
        session = self._shell.session
        prefix = f"{process.hex()}-"
        places = (session.shared, session.spill)
        return [n for place in places for n in os.listdir(place) if n.startswith(prefix)]

    def _end(self, name: str, owner: bytes) -> None:
        self.ledger.dropped(name, 0, owner)
        self._tell_holders(name)
        self._unlink(name)
