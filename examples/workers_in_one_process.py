"""Compares workers as processes, as threads and as sub-interpreters.

Run it with the Python to be measured; it needs nothing else. Threads only help in a free-threaded
Python. Sub-interpreters have a lock of their own, and are used from Python 3.13 on. Prints calls
per second, the memory of one more worker, how two workers share a machine, what the end of one does
to the other, the time to hand 1 MiB from one to the other, and what a sub-interpreter cannot
import.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import mmap
import os
import pickle
import queue
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

Call = tuple[Callable[..., Any], tuple[Any, ...]]
MIB = 1 << 20
BATCH = 100
MORE_WORKERS = 8
STARTS = 3
FEWEST = 20
LOOP = 300_000
LOOPS = 6
LONG_LOOP = 5_000_000
RECV_BYTES = 1 << 17
ENDS: dict[str, Call] = {
    "os._exit(3)": (os._exit, (3,)),
    "a segmentation fault": (exec, ("import ctypes; ctypes.string_at(0)",)),
}
_shared = mmap.mmap(-1, MIB)
"""Memory that this process and its forks share."""


class Worker(Protocol):
    """Runs calls in another process, thread or sub-interpreter."""

    def ask(self, calls: list[Call]) -> list[Any]:
        """Return the results of calls, in order."""
        ...

    def close(self) -> None:
        """End the worker."""
        ...


def run(calls: list[Call]) -> list[Any]:
    """Run calls, and return their results. Every worker does its work by this function."""
    return [function(*args) for function, args in calls]


def spin(count: int) -> float:
    """Run a loop of plain Python; return its CPU time in seconds."""
    began = time.thread_time()
    total = 0
    for i in range(count):
        total += i & 3
    return time.thread_time() - began


# ---- over a socket ---------------------------------------------------------------------------


def serve(fd: int) -> None:
    """Answer requests over a socket until the other side closes it."""
    with socket.socket(fileno=fd) as sock:
        while data := sock.recv(RECV_BYTES):
            sock.send(pickle.dumps(run(pickle.loads(data))))  # noqa: S301  (our own)


class _OnSocket:
    """A worker whose calls travel as pickles over a pair of Unix sockets that keep message
    boundaries.
    """

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._begin(theirs)

    def _begin(self, theirs: socket.socket) -> None:
        raise NotImplementedError

    def ask(self, calls: list[Call]) -> list[Any]:
        """Send the calls, and receive their results."""
        self._sock.send(pickle.dumps(calls))
        answer = self._sock.recv(RECV_BYTES)
        if not answer:
            raise EOFError("the worker has ended")
        return list(pickle.loads(answer))  # noqa: S301  (our own)

    def close(self) -> None:
        """Close the socket."""
        self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


class ProcessWorker(_OnSocket):
    """A fork of this process, like Phalanx's workers, which are forks of a process with imported
    modules.
    """

    pid = 0

    def _begin(self, theirs: socket.socket) -> None:
        self.pid = os.fork()
        if not self.pid:
            self._sock.close()
            with contextlib.suppress(OSError):
                serve(theirs.detach())
            os._exit(0)
        theirs.close()

    def close(self) -> None:
        """Close the socket, and wait for the process."""
        super().close()
        os.waitpid(self.pid, 0)


class _InThread(_OnSocket):
    def _begin(self, theirs: socket.socket) -> None:
        self._thread = threading.Thread(target=self._serve, args=(theirs.detach(),), daemon=True)
        self._thread.start()

    def _serve(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            serve(fd)

    def close(self) -> None:
        """Close the socket, and wait for the thread."""
        super().close()
        self._thread.join()


class ThreadWorker(_InThread):
    """A thread that serves calls over a socket."""


class InterpreterWorker(_InThread):
    """A sub-interpreter with a lock of its own, in a thread, that serves calls over a socket."""

    def _serve(self, fd: int) -> None:
        interpreter = interpreters.create()
        interpreter.exec(_begin_serving(fd))
        interpreter.close()


# ---- over queues -----------------------------------------------------------------------------


class QueueWorker:
    """A thread that receives the calls themselves: nothing is pickled."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[list[Call] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[list[Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (calls := self._calls.get()) is not None:
            self._results.put(run(calls))

    def ask(self, calls: list[Call]) -> list[Any]:
        """Hand over the calls, and wait for their results."""
        self._calls.put(calls)
        return self._results.get()

    def close(self) -> None:
        """End the thread."""
        self._calls.put(None)
        self._thread.join()


class InterpreterQueueWorker:
    """A sub-interpreter that gets calls and returns results over two queues between interpreters.

    A reader cannot sleep on such a queue: the queue's own `get` polls every 10 ms. So each queue
    has an eventfd, which signals each item.
    """

    serving = "serve_queues"

    def __init__(self) -> None:
        self._interpreter = interpreters.create()
        self._calls, self._results = BellQueue.new(), BellQueue.new()
        code = f"{_IMPORTED}.{self.serving}({self._calls.parts}, {self._results.parts})"
        self._thread = threading.Thread(target=self._interpreter.exec, args=(code,), daemon=True)
        self._thread.start()

    def ask(self, calls: list[Call]) -> list[Any]:
        """Hand over the calls, and wait for their results."""
        self._calls.put(pickle.dumps(calls))
        return list(pickle.loads(self._results.get()))  # noqa: S301  (our own)

    def close(self) -> None:
        """End the sub-interpreter."""
        self._calls.put(b"")
        self._thread.join()
        self._interpreter.close()


class BellQueue:
    """A queue between interpreters, with an eventfd that signals items."""

    def __init__(self, queue_id: int, bell: int) -> None:
        self.parts = queue_id, bell
        self._queue = interpreters.Queue(queue_id)

    @classmethod
    def new(cls) -> BellQueue:
        """Return a new queue."""
        fresh = interpreters.create_queue()
        return cls(int(fresh.id), os.eventfd(0, os.EFD_SEMAPHORE))

    def put(self, value: Any) -> None:
        """Add a value, unchanged if interpreters can share it."""
        self._queue.put(value, syncobj=True)
        os.eventfd_write(self.parts[1], 1)

    def get(self) -> Any:
        """Wait for the next value."""
        os.eventfd_read(self.parts[1])
        return self._queue.get_nowait()


def serve_queues(calls: tuple[int, int], results: tuple[int, int]) -> None:
    """Answer requests over queues until an empty request arrives."""
    incoming, outgoing = BellQueue(*calls), BellQueue(*results)
    while data := incoming.get():
        outgoing.put(pickle.dumps(run(pickle.loads(data))))  # noqa: S301  (our own)


def _find_interpreters() -> Any:
    for name in ("concurrent.interpreters", "test.support.interpreters"):
        with contextlib.suppress(ImportError):
            found = importlib.import_module(name)
            importlib.import_module(f"{name}.queues") if "test" in name else None
            return found
    return None


interpreters = _find_interpreters()
"""The module of sub-interpreters, whose name depends on the version of Python; None if there is
none.
"""
_IMPORTED = (
    f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); "
    f"import {Path(__file__).stem} as example; example"
)


def _begin_serving(fd: int) -> str:
    return f"{_IMPORTED}.serve({fd})"


# ---- measuring -------------------------------------------------------------------------------


def kinds() -> dict[str, Callable[[], Worker]]:
    """Return the kinds of workers that this Python has, processes first."""
    found: dict[str, Callable[[], Worker]] = {
        "process": ProcessWorker,
        "thread, socket": ThreadWorker,
        "thread, queue": QueueWorker,
    }
    if interpreters is not None:
        found["sub-interpreter, socket"] = InterpreterWorker
        found["sub-interpreter, queue"] = InterpreterQueueWorker
    return found


def rate(make: Callable[[], Worker], batch: int, seconds: float) -> float:
    """Return calls per second, with `batch` calls in each message. Only the fastest tenth of the
    messages counts.
    """
    worker = _ready(make)
    calls: list[Call] = [(abs, (-7,))] * batch
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end or len(took) < FEWEST:
        worker.ask(calls)
        took.append(time.perf_counter() - began)
    worker.close()
    return batch / statistics.quantiles(took, n=10)[0]


def _ready(make: Callable[[], Worker]) -> Worker:
    """Return a worker that has answered a first call."""
    worker = make()
    worker.ask([(abs, (-7,))])
    return worker


def start_ms(make: Callable[[], Worker]) -> float:
    """Return the shortest time, in milliseconds, from the start of a worker to the answer to its
    first call.
    """
    took: list[float] = []
    for _ in range(STARTS):
        began = time.perf_counter()
        worker = _ready(make)
        took.append(time.perf_counter() - began)
        worker.close()
    return min(took) * 1e3


def memory_kib(make: Callable[[], Worker]) -> float:
    """Return the memory of one more worker: the private pages of a process, or the growth of this
    process.

    It is measured in another program, in which no memory was freed before.
    """
    kind = next(kind for kind, made_by in kinds().items() if made_by is make)
    command = [sys.executable, __file__, "--memory", kind]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _own_memory_kib(make: Callable[[], Worker]) -> float:
    before = _private_kib(os.getpid())
    workers = [_ready(make) for _ in range(MORE_WORKERS)]
    if isinstance(workers[0], ProcessWorker):
        total = sum(_private_kib(w.pid) for w in workers if isinstance(w, ProcessWorker))
    else:
        total = _private_kib(os.getpid()) - before
    for worker in workers:
        worker.close()
    return total / MORE_WORKERS


def _private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def loop_ms(make: Callable[[], Worker]) -> float:
    """Return the shortest CPU time, in milliseconds, of the loop in one worker."""
    worker = _ready(make)
    fastest = min(float(worker.ask([(spin, (LOOP,))])[0]) for _ in range(LOOPS))
    worker.close()
    return fastest * 1e3


def at_a_time(make: Callable[[], Worker]) -> float:
    """Return how many of two workers run a loop of Python at the same time.

    In each twentieth of a second, the CPU time of both is divided by the elapsed time. The highest
    quotient is returned, because other programs leave two CPUs free only now and then. If both
    workers need one lock, the quotient never exceeds 1.
    """
    workers = [_ready(make), _ready(make)]
    calls: list[Call] = [(spin, (LONG_LOOP,))]
    threads = [threading.Thread(target=worker.ask, args=(calls,)) for worker in workers]
    pids = [os.getpid(), *(w.pid for w in workers if isinstance(w, ProcessWorker))]
    for thread in threads:
        thread.start()
    most = 0.0
    while any(thread.is_alive() for thread in threads):
        began, before_s = time.perf_counter(), _cpu_s(pids)
        time.sleep(0.05)
        after_s, took_s = _cpu_s(pids), time.perf_counter() - began
        most = max(most, (after_s - before_s) / took_s)
    for worker in workers:
        worker.close()
    return most


def _cpu_s(pids: list[int]) -> float:
    """Return the CPU time of all threads of processes."""
    total_ns = 0
    for pid in pids:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread is just ending
                total_ns += int(file.read_text().split()[0])
    return total_ns / 1e9


def compare(turns: int, seconds: float, only: str) -> None:
    """Measure all kinds of workers alternately. Print the medians and, in brackets, the median
    ratio to a process in the same round.
    """
    figures: dict[str, Callable[[Callable[[], Worker]], float]] = {
        "calls a second, one by one": lambda make: rate(make, 1, seconds),
        f"calls a second, {BATCH} in a message": lambda make: rate(make, BATCH, seconds),
        "start to first answer, ms": start_ms,
        "memory of one more, KiB": memory_kib,
        f"CPU time of a loop of {LOOP:,}, ms": loop_ms,
        "workers of two that run at a time": at_a_time,
    }
    print("| | " + " | ".join(kinds()) + " |")
    print("|---|" + "---:|" * len(kinds()))
    for title, figure in figures.items():
        if only not in title:
            continue
        taken: dict[str, list[float]] = {kind: [] for kind in kinds()}
        for _ in range(turns):
            for kind, make in kinds().items():
                taken[kind].append(figure(make))
        cells = []
        for samples in taken.values():
            ratios = [s / p for s, p in zip(samples, taken["process"], strict=True)]
            median, ratio = statistics.median(samples), statistics.median(ratios)
            shown = f"{median:,.0f}" if median >= 100 else f"{median:.2f}"
            cells.append(f"{shown} ({ratio:.2f}×)")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


# ---- ends of workers -------------------------------------------------------------------------


def end_one(kind: str, how: str) -> None:
    """Start two workers, end one of them in the way `how`, and ask the other."""
    one, other = _ready(kinds()[kind]), _ready(kinds()[kind])
    threading.Thread(target=_ignoring_its_end, args=(one, ENDS[how]), daemon=True).start()
    time.sleep(0.3)
    print(f"the other answered {other.ask([(abs, (-7,))])}", flush=True)
    os._exit(0)


def _ignoring_its_end(worker: Worker, call: Call) -> None:
    with contextlib.suppress(EOFError, OSError):
        worker.ask([call])


def show_ends() -> None:
    """Show what the end of one worker does to the program and to the other worker."""
    for kind in ("process", "thread, socket", "sub-interpreter, socket"):
        for how in ENDS if kind in kinds() else ():
            command = [sys.executable, __file__, "--end", kind, how]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            code = ended.returncode
            status = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            print(f"- {kind}, {how}: {ended.stdout.strip() or f'the program ended: {status}'}")


# ---- 1 MiB and numpy -------------------------------------------------------------------------


def ends_of(block: Any) -> tuple[int, int]:
    """Return the first and the last byte of a block, which is what a worker reads of it."""
    return block[0], block[-1]


def ends_of_shared() -> tuple[int, int]:
    """Return the first and the last byte of the memory that this process and its forks share."""
    return ends_of(_shared)


def hand_over(seconds: float) -> None:
    """Print how long it takes until a worker has read both ends of 1 MiB."""
    block = bytearray(os.urandom(MIB))
    _shared[:] = block

    def written_first(worker: Worker) -> None:
        _shared[:] = block
        worker.ask([(ends_of_shared, ())])

    ways: dict[str, tuple[Callable[[], Worker], Callable[[Worker], object]]] = {
        "process, in memory both have mapped": (
            ProcessWorker,
            lambda worker: worker.ask([(ends_of_shared, ())]),
        ),
        "process, copied into such memory first": (ProcessWorker, written_first),
        "thread, the object itself by a queue": (
            QueueWorker,
            lambda worker: worker.ask([(ends_of, (block,))]),
        ),
    }
    if interpreters is not None:
        views: dict[str, Any] = {"bytes": bytes(block), "a memoryview": memoryview(block)}
        for name, value in views.items():
            ways[f"sub-interpreter, {name} by a queue"] = (
                BlockWorker,
                partial(_hand, value),
            )
    for name, (make, act) in ways.items():
        worker = make()
        act(worker)
        took: list[float] = []
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end or len(took) < FEWEST:
            act(worker)
            took.append(time.perf_counter() - began)
        worker.close()
        print(f"- 1 MiB, {name}: {statistics.quantiles(took, n=10)[0] * 1e6:,.0f} us")


def _hand(value: Any, worker: Worker) -> None:
    cast("BlockWorker", worker).hand(value)


class BlockWorker(InterpreterQueueWorker):
    """A worker that reads blocks of bytes, which arrive over a queue without being pickled."""

    serving = "serve_blocks"

    def hand(self, block: Any) -> tuple[int, int]:
        """Hand over a block, and wait until it is read."""
        self._calls.put(block)
        return cast("tuple[int, int]", self._results.get())


def serve_blocks(calls: tuple[int, int], results: tuple[int, int]) -> None:
    """Read blocks from a queue until an empty block arrives."""
    incoming, outgoing = BellQueue(*calls), BellQueue(*results)
    while len(block := incoming.get()):
        outgoing.put(ends_of(block))


def show_imports() -> None:
    """Show which modules can be imported in a sub-interpreter with a lock of its own."""
    for name in ("numpy", "msgspec", "faulthandler") if interpreters is not None else ():
        interpreter = interpreters.create()
        try:
            interpreter.exec(f"import sys; sys.path[:] = {sys.path!r}; import {name}")
            said = "imported"
        except Exception as error:
            lines = str(error).strip().splitlines()
            said = next((line for line in lines if "subinterpreter" in line), lines[0])
        interpreter.close()
        print(f"- import {name} in a sub-interpreter: {said}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--end", nargs=2, metavar=("KIND", "HOW"), help=argparse.SUPPRESS)
    parser.add_argument("--memory", metavar="KIND", help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", default="", help="measure only rows whose title contains this text"
    )
    options = parser.parse_args()
    if options.end:
        end_one(*options.end)
    if options.memory:
        print(_own_memory_kib(kinds()[options.memory]))
        return
    is_free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, {'free-threaded' if is_free else 'with its lock'}\n")
    compare(options.turns, options.seconds, options.only)
    print()
    if options.only:
        return
    show_ends()
    hand_over(options.seconds)
    show_imports()


if __name__ == "__main__":
    # The module keeps its own name, by which workers find its functions.
    importlib.import_module(Path(__file__).stem).main()
