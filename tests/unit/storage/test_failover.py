"""A primary dies and a replica takes over: batches that two servers had are never lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.ports import free_ports

from phalanx.storage.errors import StorageUnreachableError, WritesLostError
from phalanx.storage.journal import Journal
from phalanx.storage.opening import open_storage
from phalanx.storage.storage import Storage
from phalanx_benchmarks.redis_server import RedisServer

from .crashing import PROCESSES, numbered, read_number, write_numbered

QUICK_REPLICATION = "repl-diskless-sync-delay 0\nrepl-timeout 5"


class Cluster:
    """Three servers, of which the first is the primary of the others."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        password: str | None = None
        self.servers: list[RedisServer] = []
        for number, port in enumerate(free_ports(3)):
            server = RedisServer(
                str(directory / str(number)),
                port=port,
                password=password,
                settings=QUICK_REPLICATION,
            )
            password = server.password
            self.servers.append(stack.enter_context(server))
        for replica in self.servers[1:]:
            self.follow(replica, self.servers[0])

    def url(self, *, replicas: int, timeout_s: float = 30) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return (
            f"redis://{hosts}/0?password_file={self.servers[0].password_file}"
            f"&replicas={replicas}&timeout_s={timeout_s}"
        )

    def follow(self, replica: RedisServer, primary: RedisServer) -> None:
        assert replica.ask("REPLICAOF", "127.0.0.1", str(primary.port)) == b"+OK\r\n"

    def fail_over(self) -> None:
        """Kill the primary. The replica that has more batches becomes the primary, and the other
        one follows it.
        """
        self.servers[0].kill()
        first, second = sorted(self.servers[1:], key=_offset, reverse=True)
        assert first.ask("REPLICAOF", "NO", "ONE") == b"+OK\r\n"
        self.follow(second, first)


def _offset(server: RedisServer) -> int:
    for line in server.ask("INFO", "replication").decode().splitlines():
        if line.startswith("slave_repl_offset:"):
            return int(line.split(":")[1])
    raise AssertionError("not a replica")


@pytest.fixture
def cluster(short_directory: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield Cluster(short_directory, stack)


def _row(number: int) -> dict[tuple[str, bytes], bytes | None]:
    return {("nodes", b"%d" % number): b"%d" % number}


def _rows(storage: Storage) -> list[int]:
    return sorted(int(value) for _, value in storage.load("nodes"))


def test_what_a_replica_confirmed_is_there_after_it_took_over(cluster: Cluster) -> None:
    storage = open_storage(cluster.url(replicas=1))
    for number in range(20):
        storage.apply(_row(number))
    cluster.fail_over()
    storage.apply(_row(20))
    assert _rows(storage) == list(range(21))
    storage.close()


def test_a_writer_goes_on_through_a_failover_under_load(cluster: Cluster) -> None:
    told: list[int] = []
    journal = Journal(open_storage(cluster.url(replicas=1)))
    failing_over = threading.Thread(target=cluster.fail_over)
    for number in range(400):
        journal.record(_row(number), partial(told.append, number))
        journal.flush()
        if number == 100:
            journal.drain()
            failing_over.start()
    journal.drain()
    failing_over.join()
    for number in range(400, 410):
        journal.record(_row(number), partial(told.append, number))
        journal.drain()
    journal.close()
    assert told == list(range(410))
    head = open_storage(cluster.url(replicas=1))
    assert _rows(head) == told
    head.close()


def test_writer_and_primary_killed_at_full_speed(cluster: Cluster) -> None:
    ours, theirs = PROCESSES.Pipe(duplex=False)
    url = cluster.url(replicas=1)
    process = PROCESSES.Process(target=write_numbered, args=([url], theirs))
    process.start()
    theirs.close()
    last = 0
    while last < 50:
        number = read_number(ours)
        assert number is not None, "the writer ended by itself"
        last = number
    cluster.servers[0].kill()
    process.kill()
    process.join()
    while (number := read_number(ours)) is not None:
        last = number
    ours.close()
    cluster.fail_over()
    head = open_storage(url)
    found = {
        (table, key): value
        for table in ("nodes", "actors", "names")
        for key, value in head.load(table)
    }
    head.close()
    allowed = [
        {row: value for row, value in numbered(each).items() if value is not None}
        for each in (last, last + 1)
    ]
    assert found in allowed


def test_a_head_cut_off_with_the_old_primary_acknowledges_nothing(cluster: Cluster) -> None:
    old, first, second = cluster.servers
    # Waits until both replicas have joined, which the short time below does not allow for.
    open_storage(cluster.url(replicas=2)).close()
    zombie = open_storage(
        f"redis://127.0.0.1:{old.port}?password_file={old.password_file}&replicas=2&timeout_s=2"
    )
    zombie.apply(_row(1))
    first.ask("REPLICAOF", "NO", "ONE")
    cluster.follow(second, first)
    with pytest.raises(StorageUnreachableError, match="0 of 2 replicas have confirmed"):
        zombie.apply(_row(2))
    head = open_storage(cluster.url(replicas=1))
    assert head.epoch == zombie.epoch + 1
    head.apply(_row(3))
    cluster.follow(old, first)
    head.apply(_row(4))
    assert _rows(head) == [1, 3, 4]
    head.close()
    zombie.close()


def test_of_two_primaries_the_one_that_is_ahead_is_used(cluster: Cluster) -> None:
    storage = open_storage(cluster.url(replicas=1))
    storage.apply(_row(1))
    cluster.fail_over()
    storage.apply(_row(2))
    cluster.servers[0].start()
    storage.close()
    head = open_storage(cluster.url(replicas=1))
    assert _rows(head) == [1, 2]
    head.apply(_row(3))
    assert _rows(head) == [1, 2, 3]
    head.close()


def test_without_replication_a_lossy_failover_is_noticed(cluster: Cluster) -> None:
    storage = open_storage(cluster.url(replicas=2))
    storage.apply(_row(1))
    storage.close()
    storage = open_storage(cluster.url(replicas=0))
    storage.apply(_row(2))
    for replica in cluster.servers[1:]:
        replica.ask("REPLICAOF", "NO", "ONE")
    storage.apply(_row(3))
    storage.apply(_row(4))
    cluster.servers[0].kill()
    with pytest.raises(WritesLostError):
        storage.apply(_row(5))
    storage.close()
