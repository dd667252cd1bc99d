"""Room in shared memory for who waits for it: what was used longest ago goes to disk.

Files are copied beside the node's loop, so leases and messages do not wait for the disk. Who asks
for room waits in line; while files are copied, objects come and go as always.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from phalanx.errors import ObjectStoreFullError, OutOfDiskError
from phalanx.objects.directory import StoreLedger

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.loop import NodeLoop
    from phalanx.engines.embedded.session import Session

Then = Callable[[Exception | None], None]
Copied = Callable[[list[OSError | None]], None]
_PART = ".part"


class Copier(Protocol):
    """Copies files without being waited for."""

    def start(self, files: list[tuple[str, str]], copied: Copied) -> None:
        """Copy each (source, target); then `copied`, in the node's loop, with what went wrong."""
        ...


class Evicts(Protocol):
    """What is asked of the store."""

    def evict_copy(self, name: str) -> bool:
        """Drop a copy of another node's object; False when it is none."""
        ...

    def free_spares(self, needed_bytes: int) -> None:
        """Delete files that are kept for later, until so much is free."""
        ...

    def spilled(self, name: str, writer: bytes) -> None:
        """The object lies on disk."""
        ...


class _Wish(NamedTuple):
    process: bytes
    bytes: int
    then: Then


class Room:
    """Those who wait for memory, in order."""

    def __init__(
        self, ledger: StoreLedger, session: Session, store: Evicts, copier: Copier
    ) -> None:
        self._ledger = ledger
        self._session = session
        self._store = store
        self._copier = copier
        self._waiting: deque[_Wish] = deque()
        self._copying: list[tuple[str, bytes]] = []
        self._is_serving = False

    def ask(self, process: bytes, wanted_bytes: int, then: Then) -> None:
        """`then(None)` once there is room, which it has to take at once; else it is given an
        ObjectStoreFullError or OutOfDiskError."""
        self._waiting.append(_Wish(process, wanted_bytes, then))
        self._serve()

    def process_gone(self, process: bytes) -> None:
        """A process ended: it needs no room any more."""
        self._waiting = deque(wish for wish in self._waiting if wish.process != process)
        self._serve()

    def _serve(self) -> None:
        if self._is_serving:
            return  # asked for by who was just served
        self._is_serving = True
        try:
            while self._waiting and not self._copying:
                wish = self._waiting[0]
                error = self._make_room(wish.bytes)
                if error is not None or not self._ledger.missing(wish.bytes):
                    self._waiting.popleft()
                    wish.then(error)
        finally:
            self._is_serving = False

    def _make_room(self, wanted_bytes: int) -> Exception | None:
        """Begin what frees memory, if it is needed; an error when nothing does."""
        ledger = self._ledger
        if missing := ledger.missing(wanted_bytes):
            self._store.free_spares(missing)
        missing = ledger.missing(wanted_bytes)
        victims = ledger.victims(missing) if missing else []
        if missing and not victims:
            return ObjectStoreFullError(
                f"an object of {wanted_bytes} bytes does not fit: the store has "
                f"{ledger.capacity_bytes} bytes, {ledger.used_bytes} in use, and nothing "
                "more can be spilled. Free references or raise object_store_memory."
            )
        self._copying = [
            (name, writer) for name, _, writer in victims if not self._store.evict_copy(name)
        ]
        if self._copying:
            shared, spill = self._session.shared, self._session.spill
            files = [
                (os.path.join(shared, name), os.path.join(spill, name + _PART))
                for name, _ in self._copying
            ]
            self._copier.start(files, self._copied)
        return None

    def _copied(self, failures: list[OSError | None]) -> None:
        copied, self._copying = self._copying, []
        error: OSError | None = None
        for (name, writer), failure in zip(copied, failures, strict=True):
            part = os.path.join(self._session.spill, name + _PART)
            if failure is None and self._ledger.holds(name):
                self._move(name, writer, part)
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # it went, or was written over, while it was copied
            if isinstance(failure, FileNotFoundError):
                self._ledger.lost(name)
            else:
                error = error or failure
        if error is not None and self._waiting:
            self._waiting.popleft().then(self._no_disk(error))
        self._serve()

    def _move(self, name: str, writer: bytes, part: str) -> None:
        try:
            os.rename(part, part.removesuffix(_PART))
        except FileNotFoundError:
            self._ledger.lost(name)  # its writer has ended, and with it its objects
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._session.shared, name))
        self._ledger.spilled(name)
        self._store.spilled(name, writer)

    def _no_disk(self, error: OSError) -> Exception:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        return OutOfDiskError(
            f"objects spill to {self._session.spill}, and that disk is full ({error.strerror}). "
            "Free space there or use fewer large objects."
        )


class ThreadCopier:
    """A thread for each batch of files, of which there is one at a time."""

    def __init__(self, loop: NodeLoop) -> None:
        self._loop = loop
        self._done: deque[tuple[Copied, list[OSError | None]]] = deque()
        self._readable = self._wake = -1

    def start(self, files: list[tuple[str, str]], copied: Copied) -> None:
        """See Copier."""
        if self._wake < 0:
            self._readable, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self._loop.call_when_readable(self._readable, self._tell)
        threading.Thread(target=self._copy, args=(files, copied), daemon=True).start()

    def _copy(self, files: list[tuple[str, str]], copied: Copied) -> None:
        self._done.append((copied, [_copy_one(source, target) for source, target in files]))
        os.write(self._wake, b"!")

    def _tell(self) -> None:
        os.read(self._readable, 4096)
        while self._done:
            copied, failures = self._done.popleft()
            copied(failures)


def _copy_one(source: str, target: str) -> OSError | None:
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        return error
    return None
