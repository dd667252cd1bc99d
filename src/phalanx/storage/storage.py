"""The store as the head's process uses it: one or more shards behind one interface, for only one
head at a time.
"""

from __future__ import annotations

import heapq
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from phalanx.storage.errors import StorageError, StorageFullError, WritesLostError
from phalanx.storage.marks import Mark, check_mark
from phalanx.storage.shard import Batch, Head, Shard

_NO_ROUTES: Mapping[str, int] = {}


class Storage:
    """Tables of rows in one or more shards, with the sole right to write them.

    `by_key` names the tables that are spread over the shards. For each table, `by_key` has the
    number of bytes at the beginning of a key that choose the shard. Rows of these tables whose keys
    begin with equal bytes are in one shard. All other tables are in the first shard. In each shard,
    a batch is written completely or not at all. The first shard is written last, so that its rows
    never refer to rows that are missing in other shards.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        by_key: Mapping[str, int] = _NO_ROUTES,
        marks: Sequence[Mark | None] = (),
        cluster: str = "",
        accept_loss: bool = False,
    ) -> None:
        """Take the next epoch in all shards; earlier writers are refused from then on.

        `marks`: the mark of each shard, or None, in the order of the shards. `cluster`: the name of
        the cluster to which the store must belong; "" for any cluster. With `accept_loss`, neither
        marks nor the cluster are checked. Raises StaleEpochError when another head opens the store
        at the same time. Raises WritesLostError when a shard lacks batches that its mark records,
        or when the store belongs to another cluster. Raises StorageError when these are not the
        store's shards in their original order.
        """
        assert shards, "a store has at least one shard"
        assert all(length > 0 for length in by_key.values()), "routes have at least one byte"
        self._shards = tuple(shards)
        self._by_key = dict(by_key)
        self._failure: StorageError | None = None
        heads = [shard.head() for shard in self._shards]
        layouts = [self._layout(at) for at in range(len(self._shards))]
        for shard, head, layout in zip(self._shards, heads, layouts, strict=True):
            if head.layout not in ("", layout):
                raise StorageError(
                    f"{shard} was written as shard {head.layout}, and is now named as shard "
                    f"{layout}. Name the same shards in the same order."
                )
        self._marks = tuple(marks) or (None,) * len(self._shards)
        if not accept_loss:
            for shard, head, mark in zip(self._shards, heads, self._marks, strict=True):
                if mark is not None:
                    check_mark(shard, head, mark)
            if cluster and heads[0].cluster != cluster:
                raise WritesLostError(
                    f"{self} {_content(heads[0])}, and nodes that run here belong to the cluster "
                    f"{cluster}. Name the store that has it, or end these nodes with `phalanx "
                    "stop`. `phalanx start --head --accept-loss` starts on this store, and refuses "
                    "them."
                )
        self.epoch = 1 + max(head.epoch for head in heads)
        """The number of this opening of the store; each later opening has a higher number."""
        self.cluster = heads[0].cluster or secrets.token_hex(8)
        """The name of the cluster whose store this is."""
        self.is_new = self.epoch == 1
        """Whether no head has written the store before."""
        self._written = [Head(self.epoch, layout, self.cluster) for layout in layouts]
        for at, shard in enumerate(self._shards):
            shard.claim(self._written[at])
            self._mark(at, is_durable=True)

    def __repr__(self) -> str:
        return " ".join(map(repr, self._shards))

    def load(self, table: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the rows whose keys begin with `prefix`, in ascending order of keys.

        This method is for recovery: the result may lack changes that are applied while it is read.
        """
        length = self._by_key.get(table, 0)
        if len(prefix) >= length:
            shards: Sequence[Shard] = (self._shard(table, prefix),)
        else:
            shards = self._shards
        return heapq.merge(*(shard.load(table, prefix) for shard in shards), key=itemgetter(0))

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value of a key; None if the key has no value."""
        return self._shard(table, key).get(table, key)

    def apply(self, batch: Batch) -> None:
        """Write the batch. The batch is durable when this method returns. Raises the errors of
        Shard.apply. After an error, every later call raises the same error: a disk that failed to
        write once may falsely report success the next time, and a server may have written the batch
        without an answer. Only after a StorageFullError may the same batch be tried again. Parts of
        the batch that were already written are then written once more.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._apply(batch)
        except StorageFullError:
            raise
        except StorageError as error:
            self._failure = error
            raise

    def shortage(self) -> str:
        """Return why there is too little room for new work, for display; "" if there is enough.
        Marks that were removed are made again.
        """
        for mark, written in zip(self._marks, self._written, strict=True):
            if mark is not None:
                mark.keep(written)
        return next(filter(None, (shard.shortage() for shard in self._shards)), "")

    def close(self) -> None:
        """Close every shard and mark."""
        for shard in self._shards:
            shard.close()
        for mark in self._marks:
            if mark is not None:
                mark.close()

    def _mark(self, at: int, is_durable: bool = False) -> None:
        mark = self._marks[at]
        if mark is not None:
            mark.write(self._written[at], is_durable)

    def _write(self, at: int, batch: Batch) -> None:
        self._shards[at].apply(batch)
        written = self._written[at]
        self._written[at] = written._replace(sequence=written.sequence + 1)
        self._mark(at)

    def _apply(self, batch: Batch) -> None:
        if not batch:
            self._shards[0].apply(batch)
            return
        if len(self._shards) == 1:
            self._write(0, batch)
            return
        parts: dict[int, dict[tuple[str, bytes], bytes | None]] = {}
        for row, value in batch.items():
            parts.setdefault(self._place(*row), {})[row] = value
        for at in sorted(parts, reverse=True):
            self._write(at, parts[at])

    def _shard(self, table: str, key: bytes) -> Shard:
        return self._shards[self._place(table, key)]

    def _place(self, table: str, key: bytes) -> int:
        length = self._by_key.get(table)
        if length is None:
            return 0
        return zlib.crc32(key[:length]) % len(self._shards)

    def _layout(self, at: int) -> str:
        count = len(self._shards)
        if count == 1:
            return "1 of 1"
        routes = ", ".join(f"{table}:{length}" for table, length in sorted(self._by_key.items()))
        return f"{at + 1} of {count} ({routes})"


def _content(head: Head) -> str:
    if head.epoch == 0:
        return "is empty"
    return f"holds the cluster {head.cluster or 'of an older version'}"
