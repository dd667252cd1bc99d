"""A cluster whose head is killed and started again under load, and checks of the result.

    python -m tests.system.chaos.head_restarts STORE RESTARTS SEED [DISK]

STORE is a path or a Redis directory (`redis:DIRECTORY`, whose server this program starts). DISK is
a small file system that holds the store; each restart happens while it is full. With Redis and
DISK, the server's memory is full instead. Prints what was seen, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.system.chaos.soaking import logs_text

import phalanx
from phalanx.cluster_utils import Cluster
from phalanx.errors import StoreFullError, SystemFailureError
from phalanx.model.rows.cluster import StatusInfo
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.runtime.daemons.daemon_files import daemons
from phalanx.runtime.daemons.visitor import ask_daemon
from phalanx_benchmarks.redis_server import RedisServer

PATIENCE_S = 180.0
QUIET_S = 4.0
NODE_PATIENCE_S = 3.0
"""The seconds without a head after which a node without work ends. They are fewer than QUIET_S: a
node that had forgotten its work would end in that time.
"""
BLOCK = bytes(64 * 1024)


@phalanx.remote(max_retries=-1)
def echo(number: int) -> int:
    return number


@phalanx.remote(max_restarts=0, max_task_retries=0)
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self) -> int:
        self.count += 1
        return self.count


class Load:
    """Jobs, tasks and calls, each submitted one after another by its own thread, and the result
    that each must have.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_over = threading.Event()
        self.jobs: list[tuple[phalanx.JobHandle, Path]] = []
        self.refused = 0
        self.tasks = self.calls = 0
        self.errors: list[str] = []
        self._counter = Counter.options(name="counter", lifetime="detached", num_cpus=0).remote()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True)
            for work in self.works()
        ]
        for thread in self._threads:
            thread.start()

    def works(self) -> list[Callable[[], None]]:
        """Return functions that each repeat one kind of work. Each runs in a thread of its own."""
        return [self._submit, self._run_tasks, self._call]

    def end(self) -> None:
        """Stop submitting, and wait until everything that was submitted has an answer."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                self.errors.append("a thread of the load hangs")

    def check(self) -> None:
        """Check that no job or call was lost or ran twice. Raises AssertionError."""
        assert not self.errors, self.errors
        for job, ran in self.jobs:
            state = job.wait(PATIENCE_S)
            assert state == "Completed", f"{job} is {state}: {job.describe().history}"
            count = ran.read_text().count("ran")
            assert count == 1, f"{job} ran {count} times"
        assert phalanx.get(self._counter.add.remote(), timeout=PATIENCE_S) == self.calls + 1

    def submit_one(self) -> phalanx.JobHandle:
        """Submit one more job. Raises StoreFullError."""
        ran = self._directory / f"job-{len(self.jobs)}-{self.refused}"
        job = phalanx.submit(phalanx.Job(f"echo ran >> {ran}; sleep 0.05", num_cpus=0.5))
        self.jobs.append((job, ran))
        return job

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self._is_over.is_set():
                work()
        except BaseException as error:
            self.errors.append(f"{type(error).__name__}: {error}")

    def _submit(self) -> None:
        try:
            job = self.submit_one()
        except StoreFullError:
            self.refused += 1
            self._is_over.wait(0.2)
            return
        job.wait(PATIENCE_S)
        self._is_over.wait(0.2)

    def _run_tasks(self) -> None:
        numbers = list(range(self.tasks, self.tasks + 200))
        assert phalanx.get([echo.remote(i) for i in numbers], timeout=PATIENCE_S) == numbers
        self.tasks += 200
        self._is_over.wait(0.1)

    def _call(self) -> None:
        found = phalanx.get(self._counter.add.remote(), timeout=PATIENCE_S)
        self.calls += 1
        assert found == self.calls, f"call {self.calls} was answered with {found}"
        self._is_over.wait(0.02)


class Disk:
    """A small file system that can be filled to its last byte."""

    def __init__(self, directory: Path) -> None:
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(BLOCK)
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"x")

    def free(self) -> None:
        self._ballast.unlink()


class ServerMemory:
    """The memory of a Redis server."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def fill(self) -> None:
        self._server.ask("CONFIG", "SET", "maxmemory", "1000")

    def free(self) -> None:
        self._server.ask("CONFIG", "SET", "maxmemory", "0")


class Trial:
    """One cluster, its load, and the restarts of its head."""

    def __init__(self, store: str, seed: int, room: Disk | ServerMemory | None) -> None:
        self._rng = random.Random(seed)
        self._room = room
        self._work = Path(tempfile.mkdtemp(prefix="phx-restarts-"))
        self._cluster = Cluster(store=store)
        options: dict[str, Any] = {"patience_s": NODE_PATIENCE_S}
        self._cluster.add_node(num_cpus=2, **options)
        self._quiet = self._cluster.add_node(num_cpus=1, resources={"quiet": 1}, **options)
        self._cluster.connect(namespace="restarts")
        self._cluster.wait_for_nodes(PATIENCE_S)
        self._nodes = {row.node_id for row in self._status().nodes}
        done = self._work / "done"
        began = self._work / "began"
        command = f"echo began >> {began}; until test -e {done}; do sleep 0.2; done"
        self._long = phalanx.submit(phalanx.Job(command, num_cpus=1, resources={"quiet": 1}))
        until(began.exists)
        self._done, self._began = done, began
        self._load = Load(self._work)
        self.seen = dict.fromkeys(
            ("restarts", "quiet", "refused", "while full", "starts refused while full"), 0
        )

    def run(self, restarts: int) -> dict[str, int]:
        """Kill the head this many times; return counts of what happened. Raises AssertionError."""
        for _ in range(restarts):
            if self._room is None:
                self._restart()
            else:
                self._restart_while_full(self._room)
            self.seen["restarts"] += 1
            assert not self._load.errors, self._load.errors
        self._load.end()
        self._done.touch()
        assert self._long.wait(PATIENCE_S) == "Completed"
        assert self._began.read_text() == "began\n", "the long job ran once"
        self._load.check()
        status = self._status()
        assert not status.troubles, status.troubles
        states = {row.node_id: row.state for row in status.nodes}
        assert states == dict.fromkeys(self._nodes, "ALIVE"), "no node ended"
        load = self._load
        counts = {"jobs": len(load.jobs), "tasks": load.tasks, "calls": load.calls}
        return {**self.seen, **counts}

    def _restart(self) -> None:
        if self._rng.random() < 0.2:
            time.sleep(QUIET_S)
            self.seen["quiet"] += 1
        else:
            time.sleep(self._rng.uniform(0.1, 1.0))
        self._cluster.kill_head()
        time.sleep(self._rng.choice((0.0, 0.3, 1.0)))
        self._cluster.start_head()

    def _restart_while_full(self, room: Disk | ServerMemory) -> None:
        room.fill()
        until(lambda: bool(self._status().troubles))
        self._is_refused()
        self._cluster.kill_head()
        try:
            self._cluster.start_head()
            self.seen["while full"] += 1
            until(lambda: bool(self._status().troubles))
            self._is_refused()
        except SystemFailureError as error:
            assert "is full" in str(error) or "limit of memory" in str(error), error
            self.seen["starts refused while full"] += 1
        time.sleep(self._rng.uniform(0.0, 1.0))
        room.free()
        if self._cluster._head is None:
            self._cluster.start_head()
        until(lambda: not self._status().troubles)
        before = len(self._load.jobs)
        until(lambda: len(self._load.jobs) > before or bool(self._load.errors))

    def _is_refused(self) -> None:
        try:
            phalanx.submit(phalanx.Job("true", name=f"refused-{self.seen['refused']}"))
        except StoreFullError:
            self.seen["refused"] += 1
        else:
            raise AssertionError("a job was taken while the store was full")

    def _status(self) -> StatusInfo:
        (head,) = [found for found in daemons(self._cluster.temp_dir) if found[1].kind == "head"]
        return ask_daemon(*head, GetStatus(), PATIENCE_S)

    def close(self) -> None:
        logs = logs_text(Path(self._cluster.temp_dir, "logs"))
        self._cluster.shutdown()
        if sys.exc_info()[0] is not None:
            print(logs, file=sys.stderr)


def until(is_met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_met():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


@contextlib.contextmanager
def _store(text: str, disk: str) -> Iterator[tuple[str, Disk | ServerMemory | None]]:
    """Yield the address of the store, and the part of it that can be filled: its disk or its
    server's memory; None if neither can be filled.
    """
    if not text.startswith("redis:"):
        yield text, Disk(Path(disk)) if disk else None
        return
    with RedisServer(text.removeprefix("redis:")) as server:
        yield server.url, ServerMemory(server) if disk else None


def main(store: str, restarts: str, seed: str, disk: str = "") -> None:
    with _store(store, disk) as (address, room):
        trial = Trial(address, int(seed), room)
        try:
            print(json.dumps(trial.run(int(restarts))), flush=True)
        finally:
            trial.close()


if __name__ == "__main__":
    os.environ["PHALANX_ADDRESS"] = "local"
    main(*sys.argv[1:])
