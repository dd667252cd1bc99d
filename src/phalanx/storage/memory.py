"""A store that exists as long as the process, for heads without a lasting store and for tests."""

from __future__ import annotations

from phalanx.storage.errors import StaleEpochError, StorageFullError
from phalanx.storage.shard import Batch, Head


class MemoryDisk:
    """The data of a MemoryShard, which outlive the shard so that a simulated head can restart."""

    def __init__(self, cluster: str = "") -> None:
        """Set up an empty store. `cluster` is the name of the cluster; "" if the first head may
        choose it.
        """
        self.head = Head(cluster=cluster)
        self.tables: dict[str, dict[bytes, bytes]] = {}
        self.is_full = False
        """Whether the store is full, so that writing fails."""


class MemoryMark:
    """A Mark that exists as long as the process."""

    def __init__(self) -> None:
        self.head: Head | None = None

    def __repr__(self) -> str:
        return "the mark"

    def read(self) -> Head | None:
        """Return the head that was written last."""
        return self.head

    def write(self, head: Head, is_durable: bool = False) -> None:
        """Keep this record of the shard's writer."""
        self.head = head

    def keep(self, head: Head) -> None:
        """Do nothing: a mark in memory cannot be removed."""

    def close(self) -> None:
        """Do nothing: there is no file to close."""


class MemoryShard:
    """A Shard whose rows are in a MemoryDisk. By default it has a disk of its own."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self._disk = disk or MemoryDisk()
        self._epoch = 0

    def __repr__(self) -> str:
        return "memory"

    def head(self) -> Head:
        return self._disk.head

    def claim(self, head: Head) -> None:
        if head.epoch <= self._disk.head.epoch:
            raise stale(self, head.epoch, self._disk.head.epoch)
        self._disk.head = head._replace(sequence=0)
        self._epoch = head.epoch

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        rows = self._disk.tables.get(table, {})
        return sorted(row for row in rows.items() if row[0].startswith(prefix))

    def get(self, table: str, key: bytes) -> bytes | None:
        return self._disk.tables.get(table, {}).get(key)

    def apply(self, batch: Batch) -> None:
        if self._epoch != self._disk.head.epoch:
            raise stale(self, self._epoch, self._disk.head.epoch)
        if not batch:
            return
        if self._disk.is_full:
            raise StorageFullError("the simulated disk is full")
        self._disk.head = self._disk.head._replace(sequence=self._disk.head.sequence + 1)
        for (table, key), value in batch.items():
            rows = self._disk.tables.setdefault(table, {})
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    def shortage(self) -> str:
        return "its disk is full" if self._disk.is_full else ""

    def close(self) -> None:
        """Do nothing: the disk stays."""


def stale(shard: object, epoch: int, found: int) -> StaleEpochError:
    """Return the error for a writer with `epoch` that finds the later head `found` in the shard."""
    return StaleEpochError(
        f"{shard} was opened by another head (epoch {found}, and this one has {epoch}): "
        "this head must not write any more. Stop it; the other one is in charge."
    )
