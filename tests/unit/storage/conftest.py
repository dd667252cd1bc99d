"""Places that hold a store. The tests open a store there, close it and open it again."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import ports

from phalanx.adapters.ray.scheduler.kv_shard import KvShard
from phalanx.storage.memory import MemoryDisk, MemoryShard
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage
from phalanx_benchmarks.redis_server import RedisServer

BY_KEY = {"lineage": 4, "objects": 4}
FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
"""A directory with a short path, in memory if possible. Memory is as safe as a disk here, because
only processes are killed.
"""
KINDS = ("memory", "sqlite", "redis", "three sqlite shards", "two redis shards", "key-values")
DURABLE_KINDS = KINDS[1:-1]


class KeyValues:
    """Stands for Ray's internal key-value store, with single values and create-if-absent."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    def put_new(self, key: bytes, value: bytes) -> bool:
        if key in self.rows:
            return False
        self.rows[key] = value
        return True

    def put(self, key: bytes, value: bytes) -> None:
        self.rows[key] = value

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def keys(self, prefix: bytes) -> list[bytes]:
        return [key for key in self.rows if key.startswith(prefix)]

    def delete_all(self, prefix: bytes) -> None:
        for key in self.keys(prefix):
            del self.rows[key]


class Place:
    """Where a store is. It outlives the stores that are opened on it, and closes those that a test
    leaves open.
    """

    def __init__(self, addresses: Sequence[str], locks: Sequence[Path] = ()) -> None:
        self.addresses = list(addresses)
        self.locks = locks
        self._disk = MemoryDisk()
        self.values = KeyValues()
        self._opened: list[Storage] = []

    def open(self) -> Storage:
        if self.addresses == ["memory"]:
            storage = Storage([MemoryShard(self._disk)], by_key=BY_KEY)
        elif self.addresses == ["key-values"]:
            storage = Storage([KvShard(self.values)], by_key=BY_KEY)
        else:
            storage = open_storage(self.addresses, by_key=BY_KEY)
        self._opened.append(storage)
        return storage

    def open_despite_lock(self) -> Storage:
        """Open the store as if somebody had removed the lock of a head that still runs."""
        for lock in self.locks:
            lock.unlink()
        return self.open()

    def close(self) -> None:
        for storage in self._opened:
            storage.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Yield one server for the tests that neither stop nor configure it. Each uses names of its
    own.
    """
    directory = tempfile.mkdtemp(prefix="phx-", dir=FAST)
    try:
        with RedisServer(directory) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """Yield a directory whose path is so short that a socket's name can follow it."""
    directory = tempfile.mkdtemp(prefix="phx-", dir=FAST)
    yield Path(directory)
    shutil.rmtree(directory)


@pytest.fixture
def make_place(
    request: pytest.FixtureRequest, short_directory: Path
) -> Iterator[Callable[[str], Place]]:
    """Yield a function that makes empty places of a kind."""
    places: list[Place] = []
    numbers = itertools.count()

    def make(kind: str) -> Place:
        count = {"three": 3, "two": 2}.get(kind.split(maxsplit=1)[0], 1)
        unique = [f"{request.node.name}-{next(numbers)}" for _ in range(count)]
        if "sqlite" in kind:
            files = [
                short_directory / f"store-{name.rpartition('-')[2]}" / "head.db" for name in unique
            ]
            locks = [file.with_name("head.db.lock") for file in files]
            place = Place([f"sqlite:{file}" for file in files], locks)
        elif "redis" in kind:
            url = request.getfixturevalue("redis_server").url
            names = ["".join(c if c.isalnum() else "." for c in name)[-100:] for name in unique]
            place = Place([f"{url}&name={name}" for name in names])
        else:
            place = Place([kind])
        places.append(place)
        return place

    yield make
    for place in places:
        place.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    """Return a place of the kind that the test's parameter names."""
    return make_place(request.param)


@pytest.fixture
def free_port() -> int:
    """Return a loopback port that is free."""
    return ports.free_port()
