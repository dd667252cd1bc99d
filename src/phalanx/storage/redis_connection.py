"""The connection to a shard's Redis.

The connection finds the primary among the servers and checks it, and retries calls for a limited
time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from phalanx.storage.errors import (
    StorageError,
    StorageFullError,
    StorageUnreachableError,
)
from phalanx.storage.redis_address import RedisAddress

_ANSWER_S = 5.0
"""The seconds that a server has for one answer."""
_FIRST_PAUSE_S = 0.02
"""Seconds before the first retry; later pauses double."""
_LONGEST_PAUSE_S = 1.0
"""The longest pause before a retry, in seconds."""
_RETRIED = (redis.exceptions.ReadOnlyError, redis.exceptions.MasterDownError)
_RETRIED_REPLIES = ("NOREPLICAS", "BUSY")

Answer = TypeVar("Answer")
State = tuple[int, int]
"""The epoch and the sequence of a server's data. The server with the greater state has more
batches.
"""


class TryAgain(Exception):
    """Raised for a failure that may soon pass. Its text is for display if the failure does not
    pass.
    """


class RedisConnection:
    """The connection over which a shard calls its primary; a broken connection is replaced by a new
    one.

    `state_of` returns the state of a server's rows. The state is needed because after a failover
    two servers may both act as the primary.
    """

    def __init__(self, address: RedisAddress, state_of: Callable[[Connection], State]) -> None:
        self._address = address
        self._state_of = state_of
        self._answer_s = min(_ANSWER_S, address.timeout_s)
        self._connection: Connection | None = None

    @property
    def replication_ms(self) -> int:
        """Milliseconds for which one call may wait for replicas, well below the call's time
        limit.
        """
        return max(1, int(self._answer_s * 1000 / 2))

    def call(self, operation: Callable[[Connection], Answer]) -> Answer:
        """Return the operation's answer.

        The operation is retried for `timeout_s` while the server is away or busy, so it may run
        twice. Raises StorageUnreachableError after that time, StorageFullError if the server has no
        room, and StorageError if the server refuses the operation for another reason.
        """
        deadline_s = time.monotonic() + self._address.timeout_s
        for pause_s in _pauses():
            try:
                if self._connection is None:
                    self._connection = self._connect()
                return operation(self._connection)
            except redis.exceptions.AuthenticationError as error:
                self.close()
                raise StorageError(
                    f"{self._address} refuses the user or password ({error}). Put the right one "
                    "into the file that ?password_file= names."
                ) from None
            except (
                redis.exceptions.ConnectionError,
                redis.exceptions.TimeoutError,
                OSError,
            ) as error:
                reason = str(error) or type(error).__name__
            except TryAgain as again:
                reason = str(again)
            except redis.exceptions.ResponseError as error:
                reason = str(error)
                self._raise_unless_retried(error)
            self.close()
            if time.monotonic() + pause_s > deadline_s:
                raise StorageUnreachableError(
                    f"{self._address} cannot be used ({reason}), tried for "
                    f"{self._address.timeout_s:g} s. Check that the server runs, and that its "
                    "address, and the number of its replicas, are right."
                )
            time.sleep(pause_s)
        raise AssertionError("pauses never end")

    def room(self) -> tuple[int, int, bool]:
        """Return the server's bytes in use, its allowed bytes (0 for unlimited), and whether it
        fails to save.

        The server is asked once, without retries. Raises RedisError or OSError when there is no
        answer.
        """
        found = _fields(self.ask_once("INFO", "memory"))
        found.update(_fields(self.ask_once("INFO", "persistence")))
        failed = "err" in (found.get("aof_last_write_status"), found.get("rdb_last_bgsave_status"))
        return int(found["used_memory"]), int(found["maxmemory"]), failed

    def ask_once(self, *words: str | bytes | int) -> Any:
        """Send one command over the present connection, and return its answer. There are no
        retries. Raises RedisError or OSError when there is no answer.
        """
        if self._connection is None:
            raise redis.exceptions.ConnectionError("there is no connection")
        try:
            return ask(self._connection, *words)
        except (redis.exceptions.RedisError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. The next call makes a new connection."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def _connect(self) -> Connection:
        """Connect to a primary: among several, to one with enough replicas, and among these, to the
        one with the greatest state.
        """
        best: tuple[tuple[bool, State], Connection] | None = None
        reasons = []
        for server in self._address.servers or (None,):
            candidate = self._to(server)
            try:
                candidate.connect()
                role, _, replicas, *_ = ask(candidate, "ROLE")
                if role != b"master":
                    raise TryAgain(f"{_place(server)} is a replica; its primary must be named too")
                # A primary that was cut off may have more than its successor, but nothing of that
                # was confirmed.
                rank = (len(replicas) >= self._address.replicas, self._state_of(candidate))
            except redis.exceptions.AuthenticationError:
                candidate.disconnect()
                raise
            except (redis.exceptions.RedisError, OSError, TryAgain) as error:
                candidate.disconnect()
                reasons.append(str(error))
                continue
            if best is None or rank > best[0]:
                if best is not None:
                    best[1].disconnect()
                best = (rank, candidate)
            else:
                candidate.disconnect()
        if best is None:
            raise TryAgain("; ".join(reasons))
        self._check_eviction(best[1])
        return best[1]

    def _to(self, server: tuple[str, int] | None) -> Connection:
        address = self._address
        options: dict[str, Any] = {
            "db": address.database,
            "username": address.user,
            "password": address.password,
            "socket_timeout": self._answer_s,
            "socket_connect_timeout": self._answer_s,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if server is None:
            return UnixDomainSocketConnection(path=address.path, **options)
        host, port = server
        if address.is_encrypted:
            return SSLConnection(host=host, port=port, ssl_ca_certs=address.certificates, **options)
        return Connection(host=host, port=port, **options)

    def _check_eviction(self, connection: Connection) -> None:
        fields = _fields(ask(connection, "INFO", "memory"))
        policy = fields.get("maxmemory_policy", "")
        if fields.get("maxmemory") != "0" and policy.startswith("allkeys"):
            raise StorageError(
                f"{self._address} drops rows when its memory is full (maxmemory-policy {policy}). "
                "Set maxmemory-policy noeviction there, or give the store a server of its own."
            )

    def _raise_unless_retried(self, error: Exception) -> None:
        text = str(error)
        if isinstance(error, redis.exceptions.OutOfMemoryError) or text.startswith("OOM"):
            raise StorageFullError(
                f"{self._address} is at its limit of memory. Raise its maxmemory."
            ) from None
        if text.startswith("MISCONF"):
            raise StorageFullError(
                f"{self._address} cannot save to its disk. Make room there; its log says more."
            ) from None
        if not isinstance(error, _RETRIED) and not text.startswith(_RETRIED_REPLIES):
            raise StorageError(f"{self._address} refuses: {text}") from None


def _fields(info: bytes) -> dict[str, str]:
    """Return the fields of an answer to INFO."""
    return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)


def ask(connection: Connection, *words: str | bytes | int) -> Any:
    """Send one command, and return its answer."""
    connection.send_command(*words)
    return connection.read_response()


def ask_at_once(connection: Connection, *commands: Sequence[str | bytes | int]) -> list[Any]:
    """Send several commands in one round trip, and return their answers.

    Raises the first error after all answers are read, so that the next call does not read one of
    them.
    """
    connection.send_packed_command(connection.pack_commands(commands))
    answers: list[Any] = []
    errors: list[Exception] = []
    for _ in commands:
        try:
            answers.append(connection.read_response())
        except redis.exceptions.ResponseError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return answers


def _place(server: tuple[str, int] | None) -> str:
    return "the server" if server is None else f"{server[0]}:{server[1]}"


def _pauses() -> Iterator[float]:
    for exponent in itertools.count():
        yield min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**exponent)
