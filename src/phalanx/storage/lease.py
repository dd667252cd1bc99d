"""The lease by which a head holds a store in a server, as a standby sees it.

The head holds the store while it keeps writing, and it writes at least every BEAT_S. A head that
ends in an orderly way releases the store, so that the next one need not wait. A head that has lost
its lease can do no harm: the store refuses the head's next batch (see `Storage`), and the head
sends no order before the batch with that order is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from phalanx.storage.errors import StorageAddressError, StorageUnreachableError
from phalanx.storage.opening import MEMORY, file_of, open_shard
from phalanx.storage.shard import Head

BEAT_S = 1.0
"""The most seconds between two batches of a head whose store is in a server."""
LEASE_S = 5.0
"""Seconds without a batch after which a store in a server is free."""
NO_SERVER = (
    "a standby needs a store that both machines reach, such as --store redis://10.0.0.9:6379/0: "
    "another machine cannot go on with a file or with memory of this one."
)


class Watched(Protocol):
    """A shard in a server."""

    def head(self) -> Head:
        """Return the record of the latest writer."""
        ...

    def shortage(self) -> str:
        """Return why the server has too little room; "" if it has enough."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Lease:
    """The lease of another head on a store."""

    def __init__(self, shard: Watched) -> None:
        self._shard = shard
        self._seen: Head | None = None
        self._seen_at = 0.0

    def is_free(self, now: float) -> bool:
        """Whether no head holds the store. `now`: the caller's own time in seconds (see
        `model.own_time`), so that a pause of the caller does not count.

        Raises StorageError if the store refuses every use, for example because of its password.
        """
        try:
            found = self._shard.head()
        except StorageUnreachableError:
            self._seen = None  # nobody knows what the head has written in the meantime
            return False
        if found.epoch == 0:
            return True
        # a head cannot write to a full server, and neither could the next head
        is_full = bool(self._shard.shortage())
        if found != self._seen or is_full:
            self._seen, self._seen_at = found, now
        return not is_full and (found.is_released or now - self._seen_at >= LEASE_S)

    def close(self) -> None:
        """Close the connection."""
        self._shard.close()


def needs_beats(addresses: Sequence[str]) -> bool:
    """Whether batches are the only sign that the head of this store is alive."""
    return addresses[0] != MEMORY and not file_of(addresses[0])


def open_lease(addresses: Sequence[str]) -> Lease:
    """Return the lease on a store. Raises StorageAddressError for a store that a head on another
    machine cannot take over, and other StorageErrors.
    """
    if not all(needs_beats([one]) for one in addresses):
        raise StorageAddressError(NO_SERVER)
    return Lease(open_shard(addresses[0]))
