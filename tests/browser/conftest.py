"""Fixtures that serve the page of a made-up cluster over a socket, and a browser that can connect
to this server only.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import threading

import pytest
import uvicorn
from playwright.sync_api import sync_playwright
from tests.polling import eventually
from tests.unit.dashboard.world import Head

from phalanx.dashboard.app import Dashboard
from phalanx.dashboard.login import Login, make_code
from phalanx.dashboard.watch import Watch
from phalanx.dashboard.wire import StrictProtocol

SECRET = b"s" * 32
PATIENCE_S = 600.0
"""The seconds after which the browser stops waiting, and after which the server sends a page
although data is missing. A busy machine may need minutes for work that otherwise takes a second.
"""
MOMENT = 100.0
"""The time of the server, by which login codes and sessions expire. It stands still, because a code
is valid for a minute only.
"""


class Served:
    """Serves the page of a made-up cluster in a thread."""

    def __init__(self, head):
        self.head = head
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.watch = Watch(head.ask)
        dashboard = Dashboard(
            self.watch, Login(SECRET), address="127.0.0.1:6380", cookie="c", may_act=True,
            patience_s=PATIENCE_S, now=lambda: MOMENT,
        )  # fmt: skip
        config = uvicorn.Config(
            dashboard.app({"127.0.0.1"}), http=StrictProtocol, lifespan="off", log_config=None,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        eventually(lambda: self.watch.snapshot is not None)

    async def _run(self):
        watching = asyncio.create_task(self.watch.run())
        await self._server.serve([self._listener])
        await self.watch.close()
        await watching

    def link(self):
        """Return the address that the command `dashboard` would print."""
        return f"{self.base}/login#code={make_code(SECRET, MOMENT)}"

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


@pytest.fixture
def served():
    served = Served(Head())
    yield served
    served.close()


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as tools:
        path = shutil.which("chromium")
        browser = tools.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=1e3 * PATIENCE_S
        )
        yield browser
        browser.close()


class Visitor:
    """A tab that has signed in. It collects its failures: errors of scripts, reports of
    the content policy, and requests to other hosts."""

    def __init__(self, chromium, served, **options):
        self.base = served.base
        self.wrong: list[str] = []
        self._context = chromium.new_context(**options)
        self._context.set_default_timeout(1e3 * PATIENCE_S)
        self._context.route(re.compile(".*"), self._route)
        self.page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)
        self.page.goto(served.link())
        self.page.wait_for_url(f"{self.base}/")

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def _route(self, route):
        if route.request.url.startswith(f"{self.base}/"):
            route.continue_()
        else:
            self.wrong.append(f"a request to {route.request.url}")
            route.abort()

    def close(self):
        self._context.close()


@pytest.fixture
def visitor(chromium, served):
    visitor = Visitor(chromium, served)
    yield visitor
    visitor.close()
    assert visitor.wrong == []
