"""Room in shared memory. Writers wait for it while the least recently used objects are spilled.

Files are copied in the background, so leases and messages do not wait for the disk. Requests for
room wait in the order in which they came. Objects come and go while files are copied.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from phalanx.errors import ObjectStoreFullError, OutOfDiskError
from phalanx.objects.pins import Pins
from phalanx.objects.store_accounting import StoreAccounting

Then = Callable[[Exception | None], None]
Copied = Callable[[list[OSError | None]], None]


class SpillFiles(Protocol):
    """Copies objects' files from memory to disk."""

    def copy(self, names: Sequence[str], copied: Copied) -> None:
        """Begin to copy these files. Later, `copied` is called one time, with a list that has for
        each file its error or None.
        """
        ...

    def keep_copy(self, name: str) -> bool:
        """Delete the file in memory, which the copy then replaces.

        Returns False if the copy does not exist any more, because its writer has ended.
        """
        ...

    def discard_copy(self, name: str) -> None:
        """Delete a copy that is not needed."""
        ...


class Evictions(Protocol):
    """Frees memory when room is needed."""

    def evict_copy(self, name: str) -> bool:
        """Drop a copy of another node's object. Returns False if the object is not such a copy."""
        ...

    def free_pooled_files(self, needed_bytes: int) -> None:
        """Delete pooled files until this number of bytes is free."""
        ...

    def spilled(self, name: str, writer: bytes) -> None:
        """Note that the object is now on disk."""
        ...


class _Wish(NamedTuple):
    process: bytes
    bytes: int
    then: Then


class ObjectRoom:
    """The requests that wait for memory, in order."""

    def __init__(
        self,
        accounting: StoreAccounting,
        pins: Pins,
        files: SpillFiles,
        evictions: Evictions,
        disk: str,
    ) -> None:
        """`disk`: the place of spilled objects, for display."""
        self._accounting = accounting
        self._pins = pins
        self._disk = disk
        self._files = files
        self._evictions = evictions
        self._waiting: deque[_Wish] = deque()
        self._copying: list[tuple[str, bytes]] = []
        self._is_serving = False

    def ask(self, process: bytes, wanted_bytes: int, then: Then) -> None:
        """Call `then(None)` as soon as there is room. `then` must take the room before it returns.

        If room cannot be made, `then` is called with an ObjectStoreFullError, an OutOfDiskError, or
        another error of the disk.
        """
        self._waiting.append(_Wish(process, wanted_bytes, then))
        self.proceed()

    def process_gone(self, process: bytes) -> None:
        """Drop the requests of a process that has ended."""
        self._waiting = deque(wish for wish in self._waiting if wish.process != process)
        self.proceed()

    def proceed(self) -> None:
        """Serve the requests for which there is room now, because something has changed."""
        if self._is_serving:
            return  # this was called by the request that was just served
        self._is_serving = True
        try:
            while self._waiting and not self._copying:
                wish = self._waiting[0]
                before = self._accounting.missing(wish.bytes)
                error = self._make_room(wish.bytes)
                missing = self._accounting.missing(wish.bytes)
                if error is not None or not missing:
                    self._waiting.popleft()
                    wish.then(error)
                elif missing == before:
                    break  # the objects that could be freed are pinned now, but will not always be
        finally:
            self._is_serving = False

    def _make_room(self, wanted_bytes: int) -> Exception | None:
        """Begin to free memory if that is necessary. Returns an error if no memory can be freed."""
        accounting = self._accounting
        if missing := accounting.missing(wanted_bytes):
            self._evictions.free_pooled_files(missing)
        missing = accounting.missing(wanted_bytes)
        victims = accounting.victims(missing, self._pins) if missing else []
        if missing and not victims and not self._pins:
            return ObjectStoreFullError(
                f"an object of {wanted_bytes} bytes does not fit: the store has "
                f"{accounting.capacity_bytes} bytes, {accounting.used_bytes} in use, and nothing "
                "more can be spilled. Free references or raise object_store_memory."
            )
        self._copying = [
            (name, writer) for name, _, writer in victims if not self._evictions.evict_copy(name)
        ]
        if self._copying:
            self._files.copy([name for name, _ in self._copying], self._copied)
        return None

    def _copied(self, failures: list[OSError | None]) -> None:
        copied, self._copying = self._copying, []
        error: OSError | None = None
        for (name, writer), failure in zip(copied, failures, strict=True):
            if failure is None and self._accounting.holds(name):
                if self._files.keep_copy(name):
                    self._accounting.spilled(name)
                    self._evictions.spilled(name, writer)
                else:
                    self._accounting.lost(name)
                continue
            self._files.discard_copy(name)  # the file was deleted or replaced during the copy
            if isinstance(failure, FileNotFoundError):
                self._accounting.lost(name)
            else:
                error = error or failure
        if error is not None and self._waiting:
            self._waiting.popleft().then(self._no_disk(error))
        self.proceed()

    def _no_disk(self, error: OSError) -> Exception:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return error
        return OutOfDiskError(
            f"objects spill to {self._disk}, and that disk is full ({error.strerror}). "
            "Free space there or use fewer large objects."
        )
