"""The node's side of shared memory: credit for writers, and spilling to disk when it runs out."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from typing import TYPE_CHECKING

from phalanx.errors import ObjectStoreFullError, OutOfDiskError
from phalanx.objects.directory import StoreLedger
from phalanx.protocol.messages import Spilled

if TYPE_CHECKING:
    from phalanx.engines.embedded.node_process import NodeShell


class NodeStore:
    """Runs what the ledger decides."""

    def __init__(self, shell: NodeShell) -> None:
        self._shell = shell
        self.ledger = StoreLedger(shell.config.object_store_bytes)
        self._unsettled: dict[bytes, set[bytes]] = {}
        """Dead workers, and who may still read from their connections."""

    def reserve(self, process: bytes, wanted_bytes: int) -> int:
        """Credit for a writer, after spilling what must go.

        Raises ObjectStoreFullError or OutOfDiskError.
        """
        missing = self.ledger.missing(wanted_bytes)
        if missing:
            self._spill(missing)
            missing = self.ledger.missing(wanted_bytes)
        if missing:
            raise ObjectStoreFullError(
                f"an object of {wanted_bytes} bytes does not fit: the store has "
                f"{self.ledger.capacity_bytes} bytes, {self.ledger.used_bytes} in use, and nothing "
                "more can be spilled. Free references or raise object_store_memory."
            )
        return self.ledger.grant(process, wanted_bytes)

    def _spill(self, needed_bytes: int) -> None:
        session = self._shell.session
        for name, _, writer in self.ledger.victims(needed_bytes):
            source = os.path.join(session.shared, name)
            target = os.path.join(session.spill, name)
            try:
                shutil.copyfile(source, target + ".part")
            except FileNotFoundError:
                self.ledger.lost(name)
                continue
            except OSError as error:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target + ".part")
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise OutOfDiskError(
                        f"objects spill to {session.spill}, and that disk is full "
                        f"({error.strerror}). Free space there or use fewer large objects."
                    ) from None
                raise
            os.rename(target + ".part", target)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(source)
            self.ledger.spilled(name)
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

    def process_gone(self, process: bytes) -> None:
        """A process ended."""
        self.ledger.process_gone(process)
        for worker in list(self._unsettled):
            self.settled(worker, process)

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
        session = self._shell.session
        prefix = f"{worker.hex()}-"
        places = (session.shared, session.spill)
        written = [n for place in places for n in os.listdir(place) if n.startswith(prefix)]
        for name in self.ledger.owned(worker, written):
            self.ledger.dropped(name, 0, worker)
            for place in places:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, name))
