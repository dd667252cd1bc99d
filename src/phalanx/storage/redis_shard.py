"""A store in a Redis server. With the server's own replication the store survives the loss of a
machine.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from typing import Any

import redis
from redis.connection import Connection

from phalanx.storage.errors import WritesLostError
from phalanx.storage.memory import stale
from phalanx.storage.redis_address import RedisAddress
from phalanx.storage.redis_connection import (
    RedisConnection,
    State,
    TryAgain,
    ask,
    ask_at_once,
)
from phalanx.storage.shard import Batch, Head

_ROWS_PER_ANSWER = 1_000
"""The largest number of rows in one answer of the server."""
FLOOR_BYTES = 64 * 2**20
"""Free bytes of the server's memory below which the store asks the head to take no new work; an
eighth of `maxmemory` if that is less.
"""

# By the token, a claim that is repeated because its answer was lost differs from another head's
# claim.
_CLAIM = """
local epoch, token = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'token'))
if token == ARGV[3] then
  redis.call('HSET', KEYS[1], 'token', token)
elseif tonumber(epoch or '0') >= tonumber(ARGV[1]) then
  return {'stale', tonumber(epoch)}
else
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'layout', ARGV[2], 'token', ARGV[3], 'sequence', 0)
  redis.call('HSET', KEYS[1], 'cluster', ARGV[4])
end
return {'done', 0}
"""

# Each batch has the next number. If the number is already there, the batch was sent again because
# its answer was lost: the number is written once more, so that WAIT has a write to wait for.
# Without numbers, a batch that a hung server received before it was sent again could overwrite
# later ones.
_APPLY = """
local epoch, token, sequence = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'token', 'sequence'))
if token ~= ARGV[1] then return {'stale', tonumber(epoch or '0')} end
local number = tonumber(ARGV[2])
if tonumber(sequence) < number - 1 or tonumber(sequence) > number then return {'lost', 0} end
if tonumber(sequence) < number then
  local at = 3
  local function each(command, key)
    local last = at + tonumber(ARGV[at])
    for first = at + 1, last, 2000 do
      redis.call(command, key, unpack(ARGV, first, math.min(first + 1999, last)))
    end
    at = last + 1
  end
  for table = 2, #KEYS do
    each('HSET', KEYS[table])
    each('HDEL', KEYS[table])
  end
end
redis.call('HSET', KEYS[1], 'sequence', ARGV[2])
return {'done', 0}
"""

# The epoch stands for the writer, so that a later claim, of any version, ends the release.
_RELEASE = """
local epoch, token = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'token'))
if token == ARGV[1] then redis.call('HSET', KEYS[1], 'released', epoch) end
"""


class RedisShard:
    """A Shard in one Redis database, with one hash for each table and one for the record of the
    writer.

    Each batch is written by one script: completely or not at all, and only if no later writer has
    claimed the shard. A batch counts as written when the server has answered and `replicas`
    replicas have the batch. The server's own settings decide whether data survives a crash of the
    server (appendonly yes, appendfsync always).
    """

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        # With the braces, all keys of a store are in the same slot of a Redis cluster.
        self._prefix = f"phalanx:{{{address.name}}}:"
        self._head_key = f"{self._prefix}head"
        self._token = secrets.token_hex(16)
        self._epoch = 0
        self._sequence = 0
        self._connection = RedisConnection(address, self._state)

    def __repr__(self) -> str:
        return str(self._address)

    def head(self) -> Head:
        def read(connection: Connection) -> Head:
            fields = ("epoch", "layout", "cluster", "sequence", "released")
            epoch, layout, name, sequence, released = ask(
                connection, "HMGET", self._head_key, *fields
            )
            return Head(
                epoch=int(epoch or 0),
                layout=(layout or b"").decode(),
                cluster=(name or b"").decode(),
                sequence=int(sequence or 0),
                is_released=released is not None and released == epoch,
            )

        return self._connection.call(read)

    def claim(self, head: Head) -> None:
        words = (1, self._head_key, head.epoch, head.layout, self._token, head.cluster)
        outcome, found = self._write(_CLAIM, *words)
        if outcome == b"stale":
            raise stale(self, head.epoch, found)
        self._epoch = head.epoch
        self._sequence = 0

    def load(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        pattern = re.sub(rb"([*?\[\]\\])", rb"\\\1", prefix) + b"*"

        def read(connection: Connection) -> list[tuple[bytes, bytes]]:
            rows: dict[bytes, bytes] = {}
            cursor = b"0"
            while True:
                cursor, found = ask(
                    connection, "HSCAN", self._table_key(table), cursor,
                    "MATCH", pattern, "COUNT", _ROWS_PER_ANSWER,
                )  # fmt: skip
                rows.update(zip(found[::2], found[1::2], strict=True))
                if cursor == b"0":
                    return sorted(rows.items())

        return self._connection.call(read)

    def get(self, table: str, key: bytes) -> bytes | None:
        def read(connection: Connection) -> bytes | None:
            found: bytes | None = ask(connection, "HGET", self._table_key(table), key)
            return found

        return self._connection.call(read)

    def apply(self, batch: Batch) -> None:
        if not batch:
            now = self.head()
            if now.epoch > self._epoch:
                raise stale(self, self._epoch, now.epoch)
            if now.epoch < self._epoch or now.sequence < self._sequence:
                raise self._lost()
            return
        tables: dict[str, tuple[list[bytes], list[bytes]]] = {}
        for (table, key), value in batch.items():
            puts, deletes = tables.setdefault(table, ([], []))
            if value is None:
                deletes.append(key)
            else:
                puts += (key, value)
        keys = [self._head_key, *map(self._table_key, tables)]
        number = self._sequence + 1
        words: list[str | bytes | int] = [len(keys), *keys, self._token, number]
        for puts, deletes in tables.values():
            words += (len(puts), *puts, len(deletes), *deletes)
        outcome, found = self._write(_APPLY, *words)
        if outcome == b"stale" and found > self._epoch:
            raise stale(self, self._epoch, found)
        if outcome != b"done":
            raise self._lost()
        self._sequence = number

    def _lost(self) -> WritesLostError:
        return WritesLostError(
            f"{self} no longer holds all {self._sequence} batches that it confirmed to this "
            "head: it was restarted without its data, or a replica took over that did not "
            "have them. Give it its data back and start the head again, or let `phalanx start "
            "--head --accept-loss` go on without; with ?replicas= or appendfsync always it "
            "does not recur."
        )

    def shortage(self) -> str:
        """Return why there is too little room for new work; "" if there is enough.

        The result is also "" if the server does not answer, because the next batch then fails
        anyway.
        """
        try:
            used, limit, failed = self._connection.room()
        except (redis.exceptions.RedisError, OSError):
            return ""
        if failed:
            return f"{self} cannot save to its disk"
        free = limit - used
        if limit and free < min(FLOOR_BYTES, limit // 8):
            return f"{self} has {free / 2**20:.0f} MiB left of its memory"
        return ""

    def close(self) -> None:
        if self._epoch:
            # Without an answer, the next head waits until the lease has ended.
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                self._connection.ask_once("EVAL", _RELEASE, 1, self._head_key, self._token)
        self._connection.close()

    def _write(self, script: str, *words: str | bytes | int) -> Any:
        """Run a script with these words. Returns its outcome and a number (see the scripts), once
        enough replicas have its changes.
        """
        replicas = self._address.replicas

        def write(connection: Connection) -> Any:
            if not replicas:
                return ask(connection, "EVAL", script, *words)
            wait = ("WAIT", replicas, self._connection.replication_ms)
            answer, confirmed = ask_at_once(connection, ("EVAL", script, *words), wait)
            if answer[0] == b"done" and confirmed < replicas:
                raise TryAgain(f"{confirmed} of {replicas} replicas have confirmed the write")
            return answer

        return self._connection.call(write)

    def _state(self, connection: Connection) -> State:
        found = ask(connection, "HMGET", self._head_key, "epoch", "sequence")
        return int(found[0] or 0), int(found[1] or 0)

    def _table_key(self, table: str) -> str:
        return f"{self._prefix}table:{table}"
