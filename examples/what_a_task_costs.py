"""Measures what a task and an actor call cost, next to two plain processes with the same messages.

Prints for each way to call: calls per second, CPU time, system calls, context switches and bytes,
in the driver and in its workers; then the memory of waiting tasks. The plain processes send the
same messages through a Unix socket and do nothing else, so they show the least possible cost. The
ways alternate, and each figure is the median of the rounds.

System calls are counted by `perf stat`; where that is missing, their columns are empty.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import pickle
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from unittest import mock

import psutil

import phalanx
from phalanx.protocol.frames import FrameReader, encode_frame
from phalanx.protocol.messages import Done, Task
from phalanx.runtime.os.connection import Connection

AT_ONCE = 1000
PLAIN_AT_ONCE = 100
WAITING_TASKS = 10_000
FEWEST = 5
COUNTED = 3 * AT_ONCE
"""The number of calls in a counted batch. With this number, the reads and writes of the measurement
itself are negligible for each call.
"""
CALLS = ("sendto", "recvfrom", "epoll_wait", "futex", "read", "write")
ALL_CALLS = "raw_syscalls:sys_enter"
PERF_ENDS_S = 5.0
ROOM_BYTES = 1 << 18
"""Bytes of the receiver's buffer, which is reused: Python's `recv` of this size allocates new
memory each time.
"""


@phalanx.remote
def nothing() -> bytes:
    """Do nothing."""
    return b"ok"


@phalanx.remote
def wait_for(path: str) -> None:
    """Hold the only CPU until a file exists."""
    while not os.path.exists(path):
        time.sleep(0.01)


@phalanx.remote
class Actor:
    """An actor that does nothing."""

    def nothing(self) -> bytes:
        """Do nothing."""
        return b"ok"


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to call.

    `run` makes `batch` calls. `workers` returns the ids of the processes that serve them.
    """

    name: str
    run: Callable[[], object]
    batch: int
    workers: Callable[[], list[int]]


# ---- two plain processes ---------------------------------------------------------------------


class PlainPeer:
    """A process that answers each frame of tasks with a frame of results, on a blocking socket."""

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        self._reader, self._room = FrameReader(), memoryview(bytearray(ROOM_BYTES))
        self.pid = os.fork()
        if not self.pid:
            self._sock.close()
            _answer(theirs)
        theirs.close()

    def ask(self, count: int) -> None:
        """Send `count` tasks in one frame, and receive as many results."""
        tasks = [Task(number, bytes(16), name="nothing") for number in range(count)]
        self.send(encode_frame(cast("list[Any]", tasks)))
        left = count
        while left:
            size = self._sock.recv_into(self._room)
            left -= len(self._reader.feed(bytes(self._room[:size])))

    def send(self, frame: bytes) -> None:
        """Send a whole frame."""
        self._sock.sendall(frame)

    def close(self) -> None:
        """End the process."""
        self._sock.close()
        os.waitpid(self.pid, 0)


def _answer(sock: socket.socket) -> None:
    """Answer until the other side has closed the socket, then end the process."""
    reader, room = FrameReader(), memoryview(bytearray(ROOM_BYTES))
    while size := sock.recv_into(room):
        tasks = cast("list[Task]", reader.feed(bytes(room[:size])))
        if tasks:
            results = [Done(t.number, pickle.dumps(b"ok"), time.time(), time.time()) for t in tasks]
            sock.sendall(encode_frame(cast("list[Any]", results)))
    os._exit(0)


# ---- counters --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usage:
    """The resources that processes have used so far, all their threads together."""

    cpu_s: float
    voluntary: int
    involuntary: int

    def since(self, before: Usage) -> tuple[float, int, int]:
        """Return the use since `before`."""
        return (
            self.cpu_s - before.cpu_s,
            self.voluntary - before.voluntary,
            self.involuntary - before.involuntary,
        )


def usage_of(pids: list[int]) -> Usage:
    """Return the use of processes, summed over threads: a process's own status covers only its
    first thread.
    """
    cpu_ns = voluntary = involuntary = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            cpu_ns += int((thread / "schedstat").read_text().split()[0])
            for line in (thread / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches:"):
                    voluntary += int(line.split()[1])
                elif line.startswith("nonvoluntary_ctxt_switches:"):
                    involuntary += int(line.split()[1])
    return Usage(cpu_ns / 1e9, voluntary, involuntary)


@contextlib.contextmanager
def system_calls(pids: list[int]) -> Iterator[dict[str, int]]:
    """Count the system calls of processes during the block; the yielded mapping is filled at its
    end.
    """
    counts: dict[str, int] = {}
    events = ",".join([ALL_CALLS, *(f"syscalls:sys_enter_{name}" for name in CALLS)])
    control, perfs_control = os.pipe()[::-1]
    perfs_answer, answer = os.pipe()[::-1]
    with tempfile.NamedTemporaryFile("r") as log:
        command = ["perf", "stat", "-x;", "-e", events, "-p", ",".join(map(str, pids))]
        command += ["-o", log.name, "-D", "-1", "--control", f"fd:{perfs_control},{perfs_answer}"]
        perf = subprocess.Popen(
            command, pass_fds=(perfs_control, perfs_answer), stderr=subprocess.DEVNULL
        )
        for fd in (perfs_control, perfs_answer):
            os.close(fd)
        os.write(control, b"enable\n")
        os.read(answer, 16)
        yield counts
        os.write(control, b"disable\n")
        os.read(answer, 16)
        perf.send_signal(signal.SIGINT)
        perf.wait(PERF_ENDS_S)
        for fd in (control, answer):
            os.close(fd)
        for line in log:
            fields = line.split(";")
            if len(fields) > 2:  # perf reports "not counted" for a process that did not run at all
                count = int(fields[0]) if fields[0].isdigit() else 0
                counts[fields[2].removeprefix("syscalls:sys_enter_")] = count


@contextlib.contextmanager
def bytes_on_sockets() -> Iterator[dict[str, int]]:
    """Count the bytes that this process sends and receives in frames."""
    counts = {"sent": 0, "received": 0}
    write, send, feed = Connection._write, PlainPeer.send, FrameReader.feed

    def counting_write(connection: Connection, frame: bytes) -> None:
        counts["sent"] += len(frame)
        write(connection, frame)

    def counting_send(peer: PlainPeer, frame: bytes) -> None:
        counts["sent"] += len(frame)
        send(peer, frame)

    def counting_feed(reader: FrameReader, data: bytes) -> list[Any]:
        counts["received"] += len(data)
        return cast("list[Any]", feed(reader, data))

    with (
        mock.patch.object(Connection, "_write", counting_write),
        mock.patch.object(PlainPeer, "send", counting_send),
        mock.patch.object(FrameReader, "feed", counting_feed),
    ):
        yield counts


# ---- measuring -------------------------------------------------------------------------------


def measure(way: Way, seconds: float, has_perf: bool) -> dict[str, float]:
    """Measure one round of one way. Returns the figures per call."""
    way.run()
    sides = {"driver": [os.getpid()], "worker": way.workers()}
    before = [usage_of(pids) for pids in sides.values()]
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end or len(took) < FEWEST:
        way.run()
        took.append(time.perf_counter() - began)
    calls = len(took) * way.batch
    found = {"a second, the fastest tenth": way.batch / statistics.quantiles(took, n=10)[0]}
    for (side, pids), earlier in zip(sides.items(), before, strict=True):
        cpu_s, voluntary, involuntary = usage_of(pids).since(earlier)
        found[f"{side} CPU us"] = cpu_s / calls * 1e6
        found[f"{side} switches"] = voluntary / calls
        found[f"{side} preempted"] = involuntary / calls
    repeats = COUNTED // way.batch
    for side, pids in sides.items():
        if has_perf:
            with system_calls(pids) as counts:
                _repeat(way.run, repeats)
            for name, count in counts.items():
                found[f"{side} {name.replace(ALL_CALLS, 'system calls')}"] = (
                    count / repeats / way.batch
                )
    with bytes_on_sockets() as sizes:
        _repeat(way.run, repeats)
    for direction, size in sizes.items():
        found[f"bytes {direction}"] = size / repeats / way.batch
    return found


def _repeat(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()


def waiting_memory() -> dict[str, float]:
    """Return, per task, the bytes and allocated blocks of tasks that wait, and of ended tasks whose
    results are held.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "go")
        holder = wait_for.remote(path)
        time.sleep(0.2)
        gc.collect()
        blocks = sys.getallocatedblocks()
        tracemalloc.start()
        refs = [nothing.remote() for _ in range(WAITING_TASKS)]
        waiting_bytes = tracemalloc.get_traced_memory()[0]
        waiting_blocks = sys.getallocatedblocks() - blocks
        Path(path).touch()
        phalanx.get(holder)
        phalanx.get(refs)
        gc.collect()
        done_bytes = tracemalloc.get_traced_memory()[0]
        done_blocks = sys.getallocatedblocks() - blocks
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return {
        "bytes, waiting": waiting_bytes / WAITING_TASKS,
        "bytes, at the peak": peak_bytes / WAITING_TASKS,
        "bytes, done and its reference held": done_bytes / WAITING_TASKS,
        "blocks, waiting": waiting_blocks / WAITING_TASKS,
        "blocks, done and its reference held": done_blocks / WAITING_TASKS,
    }


# ---- output ----------------------------------------------------------------------------------


def ways(peer: PlainPeer) -> list[Way]:
    """Return all ways to call, warmed up."""
    actor = Actor.remote()
    phalanx.get([actor.nothing.remote(), nothing.remote()])
    me = psutil.Process()
    nodes = [child for child in me.children() if child.pid != peer.pid]

    def workers() -> list[int]:
        # The child of a node is the server that forks workers.
        servers = [server for node in nodes for server in node.children()]
        return [worker.pid for server in servers for worker in server.children()]

    def at_once(remote: Callable[[], phalanx.ObjectRef[bytes]]) -> Callable[[], object]:
        return lambda: phalanx.get([remote() for _ in range(AT_ONCE)])

    ours: dict[str, tuple[Callable[[], object], int]] = {
        f"{AT_ONCE} tasks at once": (at_once(nothing.remote), AT_ONCE),
        "tasks one by one": (lambda: phalanx.get(nothing.remote()), 1),
        f"{AT_ONCE} actor calls at once": (at_once(actor.nothing.remote), AT_ONCE),
        "actor calls one by one": (lambda: phalanx.get(actor.nothing.remote()), 1),
    }
    plain: dict[str, tuple[Callable[[], object], int]] = {
        "plain, one by one": (lambda: peer.ask(1), 1),
        f"plain, {PLAIN_AT_ONCE} in a frame": (lambda: peer.ask(PLAIN_AT_ONCE), PLAIN_AT_ONCE),
    }
    return [
        Way(name=name, run=run, batch=batch, workers=theirs)
        for group, theirs in ((ours, workers), (plain, lambda: [peer.pid]))
        for name, (run, batch) in group.items()
    ]


def table(results: dict[str, list[dict[str, float]]]) -> list[str]:
    """Return Markdown: a row for each figure, a column for each way."""
    lines = ["| each | " + " | ".join(results) + " |", "|---|" + "---:|" * len(results)]
    rows = dict.fromkeys(name for turns in results.values() for turn in turns for name in turn)
    for row in rows:
        medians = [statistics.median(turn[row] for turn in turns) for turns in results.values()]
        cells = [f"{m:,.0f}" if m >= 100 else f"{m:.3g}" for m in medians]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure all ways alternately, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of one round of a way")
    options = parser.parse_args()
    peer = PlainPeer()  # before phalanx has threads, because the peer is forked
    phalanx.init(num_cpus=1)
    has_perf = shutil.which("perf") is not None
    chosen = ways(peer)
    for way in chosen:
        measure(way, options.seconds / 2, has_perf=False)
    results: dict[str, list[dict[str, float]]] = {way.name: [] for way in chosen}
    for _ in range(options.turns):
        for way in chosen:
            results[way.name].append(measure(way, options.seconds, has_perf))
    print("\n".join(table(results)))
    print()
    for name, amount in waiting_memory().items():
        print(f"- {name}: {amount:,.1f} a task, of {WAITING_TASKS:,}")
    phalanx.shutdown()
    peer.close()


if __name__ == "__main__":
    main()
