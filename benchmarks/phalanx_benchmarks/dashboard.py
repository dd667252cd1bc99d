"""The cost of the web page for a head, and the time until its pages appear.

`run(clock)` measures this. A real head's code runs in this process, with a thousand simulated nodes
of eight GPUs and ten thousand jobs. The cluster is full of running jobs, and the others wait. Each
second a hundred nodes report a change, and fifty jobs change. A real page is served over real
sockets to viewers, who read their streams. Simulated nodes carry out orders at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median
from typing import Any, TypeVar

import msgspec

from phalanx.model.jobs.states import RUNNING
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, ListJobs, Manifest
from phalanx.protocol.requests.request import Request
from phalanx_benchmarks.fed_head import GPUS, Clock, FedHead, gpu_job

R = TypeVar("R")
Row = dict[str, Any]

NODES, JOBS = 1_000, 10_000
REPORTS, CHANGES = 100, 50
VIEWERS = 20
WATCHED_S = 20.0
PAGES = (
    "/", "/jobs", "/nodes", "/queues", "/queues/default", "/plan", "/events", "/decisions",
    "/health", "/metrics",
)  # fmt: skip
ASKED = 5
_TOKEN = "scrape"
_PAINTED = """() => new Promise((done) => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    if (paint) done(paint.startTime);
    else setTimeout(look, 5);
  };
  look();
})"""
"""A script that waits for the first paint, and returns its time in milliseconds since the page was
opened.
"""


class _Head(FedHead):
    """A head that two threads may call."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.answering_s = 0.0

    def ask(self, request: Request[R], process: bytes = b"") -> R:
        """Answer a request like FedHead, and measure how long the answer takes."""
        with self.lock:
            begun = time.thread_time()
            answer = super().ask(request, process)
            self.answering_s += time.thread_time() - begun
        return answer

    def fill(self) -> None:
        """Make all nodes join, submit all jobs, and start the jobs that fit."""
        for node in range(1, NODES + 1):
            self.join(node)
        assert GPUS * NODES < JOBS, "some have to wait"
        for number in range(JOBS):
            spec = msgspec.msgpack.encode(gpu_job(f"job-{number}"))
            self.ask(ApplyManifests([Manifest("Job", spec)]))
        self.settle()
        running = sum(job.state == RUNNING for job in self.ask(ListJobs()))
        assert running == GPUS * NODES, f"{running} jobs run, and there is room for more"

    def live(self, second: int) -> None:
        with self.lock:
            self.time.now += 1.0
            for at in range(REPORTS):
                self.report(at + 1, second)
        for at in range(CHANGES):
            self.ask(CommandJob(f"job-{JOBS - 1 - at}", "hold" if second % 2 else "release"))


def run(clock: Clock) -> list[Row]:
    """Return rows with the cost of viewers for the head, and the times of each page and its
    changes.
    """
    head = _Head()
    head.fill()
    head.answering_s = 0.0
    with _served(head) as (port, cookie):
        first_s = head.answering_s
        pages = {path: [_get(clock, port, path, cookie) for _ in range(ASKED)] for path in PAGES}
        paints = first_paints(f"http://127.0.0.1:{port}", cookie.removeprefix("c="))
        viewers = [_Viewer(port, "/jobs" if n % 2 else "/", cookie) for n in range(VIEWERS)]
        head.answering_s = 0.0
        begun = clock()
        second, commands_s = 0, 0.0
        while clock() - begun < WATCHED_S:
            second += 1
            before = head.answering_s
            head.live(second)
            commands_s += head.answering_s - before
            time.sleep(max(begun + second - clock(), 0))
        share = (head.answering_s - commands_s) / (clock() - begun)
        for viewer in viewers:
            viewer.close()
    changes = [size for viewer in viewers for size in viewer.sizes]
    rows: list[Row] = [
        {"what": "head: all that there is, once", "ms": 1e3 * first_s},
        {"what": f"head: {VIEWERS} viewers", "of a core": share},
        {
            "what": "an update of an open page",
            "kB": median(changes or [0]) / 1e3,
            "seen": len(changes),
        },
    ]
    for path, found in pages.items():
        rows.append(
            {
                "what": path,
                "ms": 1e3 * median(seconds for seconds, _ in found),
                "kB": median(size for _, size in found) / 1e3,
            }
        )
    rows += [
        {"what": f"first paint of {path}", "ms": median(found)} for path, found in paints.items()
    ]
    return rows


def first_paints(base: str, session: str) -> dict[str, list[float]]:
    """Return the milliseconds until Chromium first paints each page; empty without Chromium or
    Playwright.
    """
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        return {}
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {}
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        context.add_cookies([{"name": "c", "value": session, "url": base}])
        page = context.new_page()
        for path in PAGES[:-1]:  # the last page is for monitoring systems, not for people
            for _ in range(ASKED):
                page.goto(base + path)
                found.setdefault(path, []).append(page.evaluate(_PAINTED))
        browser.close()
    return found


@contextlib.contextmanager
def _served(head: _Head) -> Iterator[tuple[int, str]]:
    """Serve this head's page in a thread. Yields the port and a session's cookie."""
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
        yield listener.getsockname()[1], f"c={session}"
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
