"""The interface that every store implements, and what passes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

Row = tuple[str, bytes]
"""Where a value stands: a table's name and a key."""

Batch = Mapping[Row, bytes | None]
"""Changes that are written together; None deletes. One row has one outcome, so order is no part."""


class Head(NamedTuple):
    """What a shard knows of its writers: the number of the latest, and the shard's place."""

    epoch: int = 0
    """0 when nobody has written yet."""
    layout: str = ""
    """The shard's place among the others, as its first writer said it."""
    cluster: str = ""
    """Names the cluster whose store this is, for ever; its first head chose it. Empty in stores
    that were made before clusters had names."""
    sequence: int = 0
    """So many batches were applied in this epoch."""


class Shard(Protocol):
    """One SQLite file, Redis server or memory that holds tables of rows.

    A shard is used by one thread at a time. All calls raise StorageError's subclasses only.
    """

    def head(self) -> Head:
        """Who wrote last."""
        ...

    def claim(self, head: Head) -> None:
        """Become the writer, durably; its sequence begins at 0. Raises StaleEpochError unless the
        epoch rises by it."""
        ...

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The rows whose keys begin with `prefix`, in ascending order of keys."""
        ...

    def get(self, table: str, key: bytes) -> bytes | None:
        """One value; None where there is none."""
        ...

    def apply(self, batch: Batch) -> None:
        """Write all of the batch or nothing; it is durable when this returns. An empty one writes
        nothing, and is not counted: it asks whether this is still the writer.

        Raises StaleEpochError when another has claimed the shard since this one did, and
        StorageFullError where there is no room: then the same batch may be tried again. Any other
        error is the last call: whether that batch was written, the next writer will see.
        """
        ...

    def shortage(self) -> str:
        """Why there is too little room for new work, for people; empty when there is enough."""
        ...

    def close(self) -> None:
        """Let go of files and connections. What was applied stays."""
        ...
