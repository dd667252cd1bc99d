"""Copies other nodes' objects into files of this node, in chunks over several connections."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.gateway_messages import Pull, Pulled
from phalanx.runtime.gateway.chunks import CHUNK_BYTES, STALL_S, GoneError, fetch
from phalanx.runtime.gateway.kept import PER_NODE, KeptConnections
from phalanx.runtime.gateway.object_files import Begun, ObjectFiles, is_object_name
from phalanx.runtime.gateway.warm_files import WarmFiles

_THREADS = 16
_WAITING = 16_384
"""The largest number of transfers at a time, including those that wait for a thread."""


class _Transfer:
    """The transfer of one object to this node. Its lock guards everything that changes."""

    def __init__(self, pull: Pull) -> None:
        self.name = pull.name
        self.size = pull.size
        self.on_disk = pull.on_disk
        self.spare = pull.spare
        self.began = time.monotonic()
        self.nodes = deque(dict.fromkeys(bytes.fromhex(node) for node in pull.nodes))
        self.untaken = 0
        """The offset of the first chunk that no thread has taken. An empty object has one chunk."""
        self.reasons: list[str] = []
        self.failure = ""
        self.may_pass = False
        """Whether the transfer failed because no node could be reached."""
        self.is_unreached = False
        """Whether the transfer gave up its last node because that node could not be reached."""
        self.threads = 0
        self.begun: Begun | None = None
        self.view: memoryview | None = None
        self.sockets: set[socket.socket] = set()
        self.lock = threading.Lock()

    def take(self) -> int | None:
        """Return the offset of the next chunk; None if no chunk is left."""
        with self.lock:
            offset = self.untaken
            if self.failure or offset >= max(self.size, 1):
                return None
            self.untaken += CHUNK_BYTES
            return offset

    def fail(self, reason: str, may_pass: bool = False) -> None:
        """End the transfer. Threads that wait for its bytes wake up. `may_pass`: whether the cause
        may pass, so that a later transfer can succeed.
        """
        with self.lock:
            if not self.failure:
                self.failure, self.may_pass = reason, may_pass
            for sock in self.sockets:
                with contextlib.suppress(OSError):
                    # SSLSocket's own shutdown is not used, because it would remove the TLS state
                    # while another thread reads.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def give_up(self, node: bytes, reason: str, is_unreached: bool) -> None:
        """Continue with the next node, because this one does not give the object. `is_unreached`:
        whether the node could not be reached.
        """
        with self.lock:
            if node in self.nodes:
                self.is_unreached = is_unreached
                self.nodes.remove(node)
                self.reasons.append(f"node {node.hex()}: {reason}")


class Transfers:
    """The transfers, by object. `report` is called once for each transfer, from any thread."""

    def __init__(
        self, files: ObjectFiles, kept: KeptConnections, report: Callable[[Pulled], None]
    ) -> None:
        self._files = files
        self._warm = WarmFiles(files)
        self._kept = kept
        self._report = report
        self._threads = ThreadPoolExecutor(_THREADS, "pull")
        self._transfers: dict[str, _Transfer] = {}
        self._lock = threading.Lock()

    def pull(self, command: Pull) -> None:
        """Begin a transfer. If a transfer of the object runs already, add the nodes to that
        transfer.
        """
        refusal = self._refusal(command)
        with self._lock:
            running = self._transfers.get(command.name)
            if running is not None:
                with running.lock:
                    for node in map(bytes.fromhex, command.nodes):
                        if node not in running.nodes:
                            running.nodes.append(node)
                self._discard_spare(command.spare)
                return
            if not refusal and len(self._transfers) >= _WAITING:
                refusal = f"{_WAITING} transfers are on their way to this node, its limit"
            if not refusal:
                transfer = self._transfers[command.name] = _Transfer(command)
        if refusal:
            self._discard_spare(command.spare)
            self._report(Pulled(command.name, False, refusal, 0, 0.0))
            return
        transfer.threads = 1
        self._threads.submit(self._begin, transfer)

    def release_file(self, name: str) -> None:
        """Release the file of an object that was copied here and has been deleted."""
        self._warm.release(name)

    def cancel(self, name: str) -> None:
        """Make the transfer of an object fail if it still runs, because nobody waits for the object
        any more.
        """
        with self._lock:
            transfer = self._transfers.get(name)
        if transfer is not None:
            transfer.fail("no reader waits for it any more")

    def _refusal(self, command: Pull) -> str:
        if command.spare and not is_object_name(command.spare):
            return f"{command.spare[:80]!r} is no name of an object's file"
        if not is_object_name(command.name):
            return f"{command.name[:80]!r} is no name of an object's file"
        if not command.nodes:
            return "no node is known to have it"
        if command.size < 0:
            return f"an object of {command.size} bytes"
        return ""

    def _begin(self, transfer: _Transfer) -> None:
        try:
            if self._files.has(transfer.name):
                self._discard_spare(transfer.spare)
                self._end(transfer, was_begun=False)
                return
            transfer.begun = self._file_for(transfer)
        except OSError as error:
            transfer.fail(_no_room(transfer, error))
            self._end(transfer, was_begun=False)
            return
        if transfer.begun is not None:
            transfer.view = memoryview(transfer.begun.mapping)[: transfer.size]
        helpers = max(0, min(PER_NODE, -(-transfer.size // CHUNK_BYTES)) - 1)
        transfer.threads += helpers
        for _ in range(helpers):
            self._threads.submit(self._work, transfer)
        self._work(transfer)

    def _file_for(self, transfer: _Transfer) -> Begun | None:
        name, size, spare = transfer.name, transfer.size, transfer.spare
        begun = self._warm.reuse(spare, name, size) if spare else None
        return begun or self._files.begin(name, size, transfer.on_disk)

    def _discard_spare(self, spare: str) -> None:
        if is_object_name(spare):
            self._warm.release(spare)
            self._files.discard_spare(spare)

    def _work(self, transfer: _Transfer) -> None:
        try:
            while (offset := transfer.take()) is not None:
                self._fetch_chunk(transfer, offset)
        except Exception as error:
            transfer.fail(f"{type(error).__name__}: {error}")
        with transfer.lock:
            transfer.threads -= 1
            is_last = not transfer.threads
        if is_last:
            self._end(transfer)

    def _fetch_chunk(self, transfer: _Transfer, offset: int) -> None:
        """Fetch one chunk from the first node that still has it."""
        fresh = False
        while not transfer.failure:
            with transfer.lock:
                node = transfer.nodes[0] if transfer.nodes else None
            if node is None:
                reason = "no node provided it;  " + "; ".join(transfer.reasons)
                transfer.fail(reason, transfer.is_unreached)
                return
            was_kept = False
            try:
                with self._kept.borrow(node, fresh) as (sock, was_kept):
                    self._fetch_over(sock, transfer, offset)
                return
            except (OSError, EOFError, GoneError, AuthenticationError, ProtocolError) as error:
                is_broken = isinstance(error, (OSError, EOFError))
                if was_kept and is_broken:
                    fresh = True  # another gateway may have this address by now
                    continue
                transfer.give_up(node, _reason(error), is_broken)
                fresh = False

    def _fetch_over(self, sock: socket.socket, transfer: _Transfer, offset: int) -> None:
        with transfer.lock:
            if transfer.failure:
                raise EOFError
            transfer.sockets.add(sock)
        part = None
        try:
            if transfer.view is not None:
                part = transfer.view[offset : offset + CHUNK_BYTES]
            fetch(sock, transfer.name, transfer.size, offset, part)
        finally:
            with transfer.lock:
                transfer.sockets.discard(sock)
            if part is not None:
                part.release()

    def _end(self, transfer: _Transfer, was_begun: bool = True) -> None:
        if transfer.view is not None:
            transfer.view.release()
        reason, size = transfer.failure, 0
        if was_begun and reason:
            self._files.discard(transfer.name, transfer.on_disk)
        elif was_begun:
            size = transfer.size
            try:
                self._files.seal(transfer.name, transfer.on_disk)
            except OSError as error:
                reason = f"the session's directory of objects was removed: {error.strerror}"
        if transfer.begun is not None:
            if reason or transfer.on_disk:
                transfer.begun.close()
            else:
                self._warm.hold(transfer.name, transfer.begun)
        with self._lock:
            del self._transfers[transfer.name]
        seconds = time.monotonic() - transfer.began
        self._report(Pulled(transfer.name, not reason, reason, size, seconds, transfer.may_pass))


def _no_room(transfer: _Transfer, error: OSError) -> str:
    place = "directory of spilled objects" if transfer.on_disk else "shared memory"
    if error.errno != errno.ENOSPC:
        return f"no file of {transfer.size} bytes in this node's {place}: {error.strerror}"
    remedy = "free space there" if transfer.on_disk else "raise object_store_memory"
    return (
        f"{transfer.size} bytes do not fit into this node's {place}. Free references or {remedy}."
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, GoneError):
        return "it does not have the object any more"
    if isinstance(error, (BlockingIOError, TimeoutError)):
        return f"it sent nothing for {STALL_S} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or "it hung up"
