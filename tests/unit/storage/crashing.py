"""A process that writes to a store and is killed meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from phalanx.storage.opening import open_storage
from phalanx.storage.shard import Batch

from .conftest import BY_KEY

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["phalanx.storage.redis_shard", "tests.unit.storage.crashing"])

TABLES = ("nodes", "actors", "names")
ROWS = 20


class Writer:
    """A process that applies batches and acknowledges them. The kernel's timer can kill it in the
    middle of a batch.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._connection, theirs = PROCESSES.Pipe()
        self.process = PROCESSES.Process(target=_write, args=(list(addresses), theirs))
        self.process.start()
        theirs.close()
        assert self._connection.recv() == "open"

    def apply(self, batch: Batch) -> None:
        """Apply a batch. Returns when it is acknowledged."""
        self._connection.send((batch, 0))
        assert self._connection.recv() == "applied"

    def apply_and_die(self, batch: Batch, after_s: float) -> bool:
        """Apply a batch, and let the kernel kill the process `after_s` seconds after it began to
        write. Returns whether the batch was finished before.
        """
        self._connection.send((batch, after_s))
        try:
            return bool(self._connection.recv() == "applied")
        except EOFError:
            return False
        finally:
            self.process.join()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self._connection.close()


def _write(addresses: list[str], connection: Connection) -> None:
    storage = open_storage(addresses, by_key=BY_KEY)
    connection.send("open")
    while True:
        batch, after_s = connection.recv()
        if after_s:
            # Nobody handles SIGALRM, so the kernel ends the process as SIGKILL would.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, after_s)
        storage.apply(batch)
        connection.send("applied")
        if after_s:
            signal.pause()


def numbered(number: int) -> dict[tuple[str, bytes], bytes | None]:
    """Return batch `number` of an endless series. It rewrites every row of three tables, and
    deletes some.
    """
    value = b"%d" % number
    batch: dict[tuple[str, bytes], bytes | None] = {
        (table, b"%d" % at): value * 50 for table in TABLES for at in range(ROWS)
    }
    for table in TABLES:
        batch[table, b"%d" % (number % ROWS)] = None
    return batch


def write_numbered(addresses: list[str], acknowledgements: Connection) -> None:
    """Apply the batches from 1 on as fast as possible. Print the number of each batch when it is
    written.
    """
    storage = open_storage(addresses, by_key=BY_KEY)
    number = 0
    while True:
        number += 1
        storage.apply(numbered(number))
        os.write(acknowledgements.fileno(), number.to_bytes(8, "big"))


def read_number(acknowledgements: Connection) -> int | None:
    """Return the next acknowledged number; None after the last one."""
    found = os.read(acknowledgements.fileno(), 8)
    assert len(found) in (0, 8)
    return int.from_bytes(found, "big") if found else None
