"""The speed of the head's writes, to each store alone and through the journal."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

from phalanx.storage.journal import Journal
from phalanx.storage.opening import open_storage
from phalanx.storage.shard import Batch
from phalanx.storage.storage import Storage
from phalanx_benchmarks.redis_server import RedisServer

Clock = Callable[[], float]
"""A function that returns the seconds of a monotonic clock."""

Figures = dict[str, str | float]

_SECONDS = 0.5
_PAGE = b"x" * 4096
_KEYS = 20_000
_RECORDS_PER_TURN = 20
_MAX_WAITING = 2_000


def run(clock: Clock) -> list[Figures]:
    """Return a row for each store. The first row measures plain appends to a file, each of which is
    synced to disk. Values have 200 bytes, and keys repeat after 20,000. The journal gets records of
    two rows, 20 in each turn of its loop, and at most 2,000 records wait. The journal's last two
    figures are the median time from a change to its acknowledgement, and the time that the journal
    takes in each turn of the loop.
    """
    with contextlib.ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="phx-")
        stack.callback(shutil.rmtree, directory)
        rows = [_plain_appends(directory, clock)]
        for name, address in _addresses(directory, stack):
            rows.append({"store": name, **_bare(address, clock), **_journal(address, clock)})
        return rows


def _addresses(directory: str, stack: contextlib.ExitStack) -> Iterator[tuple[str, str]]:
    yield "memory", "memory"
    yield "sqlite", os.path.join(directory, "store", "head.db")
    if shutil.which("redis-server") is None:
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    primary = RedisServer(
        os.path.join(directory, "primary"),
        port=port,
        # else the first replica waits five seconds for others
        settings="repl-diskless-sync-delay 0",
    )
    stack.enter_context(primary)
    yield "redis, each write to disk", primary.url
    replica = RedisServer(
        os.path.join(directory, "replica"),
        password=primary.password,
        settings=f"replicaof 127.0.0.1 {port}",
    )
    stack.enter_context(replica)
    yield "redis, and one replica", f"{primary.url}&replicas=1&name=replicated"


def _plain_appends(directory: str, clock: Clock) -> Figures:
    fd = os.open(os.path.join(directory, "plain"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(number: int) -> None:
        os.write(fd, _PAGE)
        os.fdatasync(fd)

    try:
        return {"store": "plain file, 4 KiB", "1 row a batch, batches/s": _rate(append, clock)}
    finally:
        os.close(fd)


def _bare(address: str, clock: Clock) -> Figures:
    figures: Figures = {}
    with contextlib.closing(open_storage(address)) as storage:
        for rows in (1, 10, 1_000):
            rate = _rate(_writing(storage, rows), clock)
            noun = "row" if rows == 1 else "rows"
            figures[f"{rows:,} {noun} a batch, batches/s"] = rate
            if rows == 1_000:
                figures["rows/s"] = rate * rows
    return figures


def _writing(storage: Storage, rows: int) -> Callable[[int], None]:
    def write(number: int) -> None:
        storage.apply(_batch(number * rows, rows))

    return write


def _batch(first: int, rows: int) -> Batch:
    # Values differ each time, since SQLite writes nothing where a row already has the value.
    return {("nodes", b"%d" % (at % _KEYS)): b"%0200d" % at for at in range(first, first + rows)}


def _rate(work: Callable[[int], None], clock: Clock) -> float:
    work(0)
    start = clock()
    number = 0
    while (passed := clock() - start) < _SECONDS:
        number += 1
        work(number)
    return number / passed


def _journal(address: str, clock: Clock) -> Figures:
    waits: list[float] = []
    holds: list[float] = []
    with contextlib.closing(Journal(open_storage(address))) as journal:

        def acknowledged(recorded: float) -> None:
            waits.append(clock() - recorded)

        number = 0
        start = clock()
        while clock() - start < _SECONDS:
            if number - len(waits) > _MAX_WAITING:
                select.select([journal], [], [])
            begin = clock()
            journal.deliver()
            for _ in range(_RECORDS_PER_TURN):
                journal.record(_batch(2 * number, 2), partial(acknowledged, begin))
                number += 1
            journal.flush()
            holds.append(clock() - begin)
        journal.drain()
        passed = clock() - start
    return {
        "journal, records/s": number / passed,
        "acknowledged after, ms": 1e3 * sorted(waits)[len(waits) // 2],
        "99 of 100 turns hold at most, ms": 1e3 * sorted(holds)[len(holds) * 99 // 100],
    }
