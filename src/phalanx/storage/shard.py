"""The interface that every store implements, and the types in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

Row = tuple[str, bytes]
"""The address of a value: a table's name and a key."""

Batch = Mapping[Row, bytes | None]
"""Changes that are written together: the new value of each row, or None to delete the row. The
order does not matter.
"""


class Head(NamedTuple):
    """The record that a shard keeps of its writers: which writer was the latest, how many batches
    it has written, and to which store of which cluster the shard belongs.
    """

    epoch: int = 0
    """The number of the latest writer; 0 if no head has written yet."""
    layout: str = ""
    """The shard's place among all shards, as its first writer set it."""
    cluster: str = ""
    """The name of the cluster to which this store belongs for ever. The cluster's first head chose
    the name. The name is empty in stores that are older than the names of clusters.
    """
    sequence: int = 0
    """The number of batches applied in this epoch."""
    is_released: bool = False
    """Whether the latest writer has closed the shard in an orderly way. Only shards in a server
    say so, because only these have standbys.
    """


class Shard(Protocol):
    """One SQLite file, Redis server or memory that holds tables of rows.

    A shard is used by one thread at a time. All calls raise only subclasses of StorageError.
    """

    def head(self) -> Head:
        """Return the record of the latest writer."""
        ...

    def claim(self, head: Head) -> None:
        """Become the writer, durably; the sequence begins at 0.

        Raises StaleEpochError unless the epoch of `head` is higher than the shard's.
        """
        ...

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Return the rows whose keys begin with `prefix`, in ascending order of keys."""
        ...

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of a key; None if the key has no value."""
        ...

    def apply(self, batch: Batch) -> None:
        """Write all of the batch or nothing. The batch is durable when this method returns.

        An empty batch writes nothing and is not counted: it only checks that the caller is still
        the writer. Raises StaleEpochError when another writer has claimed the shard in the
        meantime, and StorageFullError when there is no room; after that, the same batch may be
        tried again. After any other error no method may be called again; the next writer finds out
        whether the batch was written.
        """
        ...

    def shortage(self) -> str:
        """Return why there is too little room for new work, for display; "" if there is enough."""
        ...

    def close(self) -> None:
        """Close files and connections. Applied batches stay. A writer writes no more after this
        call, and the next writer need not wait.
        """
        ...
