"""Marks that record, outside a store, how far the store was written. Marks reveal that a store has
lost its last batches.

Stores do not report such a loss themselves. If a write-ahead log was cut or deleted, SQLite reads
it as if it ended there. A Redis server may come back empty or without its last seconds. A mark is
kept apart from the data that could be lost. It names the cluster, the epoch and the number of the
last confirmed batch.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import Protocol

from phalanx.storage.errors import StorageCorruptError, StorageError, WritesLostError
from phalanx.storage.private_files import prepare_file
from phalanx.storage.removed_files import is_at
from phalanx.storage.shard import Head

_WAY_ON = (
    "Put it back, or name the store that has it. `phalanx start --head --accept-loss` goes on "
    "without what is missing"
)


class Mark(Protocol):
    """The mark of one shard."""

    def read(self) -> Head | None:
        """Return the head of the shard at the time when the mark was last set; None if it was never
        set.
        """
        ...

    def write(self, head: Head, is_durable: bool = False) -> None:
        """Record that the shard has all batches up to `head`. With `is_durable`, the record also
        survives a power cut.
        """
        ...

    def keep(self, head: Head) -> None:
        """Make the mark again with `head` if it was removed."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class FileMark:
    """A Mark in a file of one line, which is overwritten in place after each batch.

    Only a writer's first line is flushed to the disk immediately. Later lines reach the disk with
    the kernel's next flush, so a batch costs one more system call and no wait. After a power cut,
    but not after the death of only the head, the mark may be older than the store. If only the
    batches after the mark are lost then, nobody notices. The mark is never newer than the store.
    """

    def __init__(self, path: str) -> None:
        """Create the file if it is missing. Raises StorageError when it is not private."""
        self._path = path
        self._fd = self._opened()

    def _opened(self) -> int:
        self._path = prepare_file(self._path, beside=())
        return os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __repr__(self) -> str:
        return self._path

    def read(self) -> Head | None:
        """Return the head in the file. Raises StorageCorruptError for a line that no FileMark has
        written.
        """
        line = os.pread(self._fd, 4096, 0)
        if not line:
            return None
        text, _, checksum = line.rstrip(b"\n").rpartition(b" ")
        words = text.split(b" ")
        if len(words) != 3 or checksum != _checksum(text):
            raise StorageCorruptError(
                f"{self._path} is damaged. It says how far the store next to it was written. "
                "`phalanx start --head --accept-loss` goes on with the store as it is."
            )
        return Head(int(words[1]), "", words[0].decode(), int(words[2]))

    def write(self, head: Head, is_durable: bool = False) -> None:
        """Write the head into the file."""
        text = b"%s %020d %020d" % (head.cluster.encode(), head.epoch, head.sequence)
        # On a full disk with copy-on-write, the mark is not updated, which is harmless.
        with contextlib.suppress(OSError):
            os.pwrite(self._fd, text + b" " + _checksum(text) + b"\n", 0)
            if is_durable:
                os.fsync(self._fd)

    def keep(self, head: Head) -> None:
        """Make the file again if it was removed; another file in its place stays."""
        with contextlib.suppress(OSError, StorageError):  # the next call tries again
            if is_at(self._fd, self._path) or os.path.lexists(self._path):
                return
            removed, self._fd = self._fd, self._opened()
            os.close(removed)
            self.write(head, is_durable=True)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def check_mark(shard: object, found: Head, mark: Mark) -> None:
    """Raise WritesLostError if the shard, whose head is `found`, lacks batches that the mark
    records.
    """
    known = mark.read()
    if known is None or not known.cluster:
        return
    if found.epoch == 0:
        raise WritesLostError(
            f"{shard} is empty, and {mark} says that it held the cluster {known.cluster}, of which "
            f"{known.sequence} batches were confirmed in epoch {known.epoch}. {_WAY_ON}: a new "
            "cluster begins."
        )
    if found.cluster != known.cluster:
        raise WritesLostError(
            f"{shard} holds the cluster {found.cluster or 'of an older version'}, and {mark} says "
            f"that it held the cluster {known.cluster}. {_WAY_ON}: the cluster that it holds."
        )
    if (found.epoch, found.sequence) < (known.epoch, known.sequence):
        missing = f"the last {known.sequence - found.sequence}"
        if found.epoch < known.epoch:
            missing = f"all since epoch {found.epoch}"
        raise WritesLostError(
            f"{shard} has lost its end: of the batches that were confirmed, {missing} are missing "
            f"({mark} says batch {known.sequence} of epoch {known.epoch}, and it holds batch "
            f"{found.sequence} of epoch {found.epoch}). {_WAY_ON}."
        )


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
