"""The cost of the web page for a head, and the time until its pages appear.

`run(clock)` measures this. A real head's code runs in this process, with a thousand simulated nodes
of eight GPUs and ten thousand jobs; processes of the nodes remember 100,000 finished tasks. The
cluster is full of running jobs, and the others wait. Each second a hundred nodes report a change,
and fifty jobs change. A real page is served over real sockets to viewers, who read their streams.
Simulated nodes carry out orders immediately. If Chromium and Playwright are installed, the pages
are also opened in the browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, TypeVar

import msgspec

from phalanx.model.jobs.states import RUNNING
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, ListJobs, Manifest
from phalanx.protocol.requests.request import Request
from phalanx_benchmarks.answers_of_nodes import AnswersOfNodes, machine_reports
from phalanx_benchmarks.fed_head import GPUS, Clock, FedHead, gpu_job, prefix_of
from phalanx_benchmarks.paints import paints

R = TypeVar("R")
Row = dict[str, Any]

NODES, JOBS = 1_000, 10_000
REPORTS, CHANGES = 100, 50
VIEWERS = 20
WATCHED_S = 60.0
PAGES = (
    "/", "/jobs", "/jobs/default/job-0", f"/jobs/default/job-{JOBS - 1}", "/nodes", "/nodes/n0001",
    "/queues", "/queues/default", "/plan", "/what-if", "/work", "/objects", "/history", "/events",
    "/decisions", "/health",
)  # fmt: skip
WATCHED = ("/", "/jobs", "/nodes", "/queues", "/work")
"""The pages that viewers keep open, in turn."""
SCRAPED = "/metrics"
"""The page for monitoring systems, which no browser opens."""
ASKED = 5
_TOKEN = "scrape"


class _Head(FedHead):
    """A head that two threads may call."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.answering_s = 0.0
        self._nodes = AnswersOfNodes(self.control.clock.wall)

    def ask(self, request: Request[R], process: bytes = b"") -> R:
        """Answer a request like FedHead, and measure the head's time for it. Requests to nodes are
        answered without the head and without a measurement, because the head does little for them.
        """
        of_nodes: R | None = self._nodes.answer(request)
        if of_nodes is not None:
            return of_nodes
        with self.lock:
            begun = time.thread_time()
            answer = super().ask(request, process)
            self.answering_s += time.thread_time() - begun
        return answer

    def fill(self) -> None:
        """Make all nodes join, submit all jobs, and start the jobs that fit."""
        for node in range(1, NODES + 1):
            self.join(node)
            self.read_machine(node)
        assert GPUS * NODES < JOBS, "some have to wait"
        for number in range(JOBS):
            spec = msgspec.msgpack.encode(gpu_job(f"job-{number}"))
            self.ask(ApplyManifests([Manifest("Job", spec)]))
        self.settle()
        running = sum(job.state == RUNNING for job in self.ask(ListJobs()))
        assert running == GPUS * NODES, f"{running} jobs run, and there is room for more"

    def read_machine(self, node: int) -> None:
        """Make a node report the use of its GPUs and its machine."""
        for message in machine_reports(node):
            self.control.on_message(prefix_of(node), message)

    def live(self, second: int) -> None:
        """Let a second pass, in which nodes report and jobs change."""
        with self.lock:
            self.time.now += 1.0
            for at in range(REPORTS):
                self.report(at + 1, second)
                self.read_machine((second * REPORTS + at) % NODES + 1)
        for at in range(CHANGES):
            self.ask(CommandJob(f"job-{JOBS - 1 - at}", "hold" if second % 2 else "release"))


def run(clock: Clock) -> Iterator[Row]:
    """Yield rows with the times of each page and its changes, and the cost of viewers for the
    head.
    """
    head = _Head()
    head.fill()
    head.answering_s = 0.0
    with _served(head) as (port, cookie, server_cpu_s):
        yield {"what": "head: all that there is, once", "ms": 1e3 * head.answering_s}
        for path in PAGES:
            yield _gets(clock, port, path, cookie)
        base, session = f"http://127.0.0.1:{port}", cookie.removeprefix("c=")
        yield from paints(base, session, PAGES, server_cpu_s)
        yield _gets(clock, port, SCRAPED, cookie)
        viewers = [_Viewer(port, WATCHED[n % len(WATCHED)], cookie) for n in range(VIEWERS)]
        shares = _watched(head, clock)
        for viewer in viewers:
            viewer.close()
    yield {
        "what": f"head: {VIEWERS} viewers, percent of a core",
        "%": 100 * sum(shares) / len(shares),
        "from": 100 * min(shares),
        "to": 100 * max(shares),
    }
    changes = [size for viewer in viewers for size in viewer.sizes]
    yield {
        "what": "an update of an open page",
        "kB": median(changes or [0]) / 1e3,
        "seen": len(changes),
    }


def _gets(clock: Clock, port: int, path: str, cookie: str) -> Row:
    """Ask for a page several times. Returns the medians of the times and sizes of the answers."""
    found = [_get(clock, port, path, cookie) for _ in range(ASKED)]
    return {
        "what": path,
        "ms": 1e3 * median(seconds for seconds, _ in found),
        "kB": median(size for _, size in found) / 1e3,
    }


def _watched(head: _Head, clock: Clock) -> list[float]:
    """Let the cluster run while viewers watch. Returns the part of a core that the head's answers
    to the page took, for each of four periods of equal length.
    """
    shares = []
    begun = period_begun = clock()
    commands_s = 0.0
    for second in range(1, int(WATCHED_S) + 1):
        if second % (WATCHED_S / 4) == 1:
            period_begun, head.answering_s, commands_s = clock(), 0.0, 0.0
        before_s = head.answering_s
        head.live(second)
        commands_s += head.answering_s - before_s
        time.sleep(max(begun + second - clock(), 0))
        if second % (WATCHED_S / 4) == 0:
            shares.append((head.answering_s - commands_s) / (clock() - period_begun))
    return shares


@contextlib.contextmanager
def _served(head: _Head) -> Iterator[tuple[int, str, Callable[[], float]]]:
    """Serve this head's page in a thread. Yields the port, a session's cookie, and a function that
    returns the CPU seconds of the thread.
    """
    import uvicorn

    from phalanx.dashboard.app import Dashboard
    from phalanx.dashboard.login import Login, make_code
    from phalanx.dashboard.watch import Watch
    from phalanx.dashboard.wire import StrictProtocol

    login = Login(b"s" * 32)
    session = login.redeem(make_code(b"s" * 32, time.monotonic()), time.monotonic())
    listener = socket.create_server(("127.0.0.1", 0))
    watch = Watch(head.ask)
    dashboard = Dashboard(
        watch, login, address="127.0.0.1:6380", cookie="c", may_act=False, scrape_token=_TOKEN
    )
    server = uvicorn.Server(
        uvicorn.Config(
            dashboard.app({"127.0.0.1"}), http=StrictProtocol, lifespan="off", log_config=None,
            timeout_graceful_shutdown=1,
        )
    )  # fmt: skip

    async def serve() -> None:
        watching = asyncio.create_task(watch.run())
        await server.serve([listener])
        await watch.close()
        await watching

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        while watch.snapshot is None:
            time.sleep(0.01)
        clock = time.pthread_getcpuclockid(thread.ident or 0)
        yield listener.getsockname()[1], f"c={session}", lambda: time.clock_gettime(clock)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _get(clock: Clock, port: int, path: str, cookie: str) -> tuple[float, int]:
    """Return the seconds until an answer arrived, and its size in bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Cookie": cookie, "Authorization": f"Bearer {_TOKEN}"}
    begun = clock()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    size = len(answer.read())
    took = clock() - begun
    connection.close()
    assert answer.status == 200, (path, answer.status)
    return took, size


class _Viewer:
    """An open page whose changes are counted."""

    def __init__(self, port: int, path: str, cookie: str) -> None:
        self.sizes: list[int] = []
        """The bytes of each update except the first, which contains the whole page."""
        self._stream = socket.create_connection(("127.0.0.1", port))
        request = f"GET /live{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n"
        self._stream.sendall(request.encode())
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        seen = b""
        is_first = True
        with contextlib.suppress(OSError):
            while part := self._stream.recv(1 << 20):
                *whole, seen = (seen + part).split(b"\n\n")
                for event in whole:
                    if b"event: changes" in event:
                        if not is_first:
                            self.sizes.append(len(event))
                        is_first = False

    def close(self) -> None:
        self._stream.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._stream.close()
