"""Counts and times of the page's requests, for its metrics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from phalanx.observe.metrics.definitions import Numbers
from phalanx.observe.metrics.meter import Meter

App = Callable[[Any, Any, Any], Awaitable[None]]

ROUTES = frozenset(
    {
        *("nodes", "queues", "jobs", "plan", "what-if", "work", "objects", "events", "decisions"),
        *("health", "history", "login", "logout", "static", "metrics", "live", "api"),
    }
)
"""The first parts of paths that are counted by name. All other paths count as `other`, because
strangers may send any path.
"""
METHODS = frozenset({"GET", "HEAD", "POST"})
LIVE = "live"
"""The route of the streams of changes. An answer there lasts as long as its page is open, so its
requests are counted, but not timed.
"""


class HttpCounts:
    """The counter of an application's requests, including requests that its guard refuses."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._meter = Meter()

    def numbers(self) -> list[Numbers]:
        """Return all counts so far."""
        return self._meter.numbers()

    def around(self, app: App) -> App:
        """Return an application that counts the requests, and passes them on to `app`."""

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            begun, codes = self._now(), ["none"]

            async def watched(message: Any) -> None:
                if message["type"] == "http.response.start":
                    codes.append(str(message["status"]))
                await send(message)

            try:
                await app(scope, receive, watched)
            finally:
                self._count(scope["path"], scope["method"], codes[-1], self._now() - begun)

        return counted

    def _count(self, path: str, method: str, code: str, took_s: float) -> None:
        first = path.strip("/").split("/")[0]
        route = "overview" if not first else first if first in ROUTES else "other"
        method = method if method in METHODS else "other"
        self._meter.add("phalanx_http_requests_total", route, method, code)
        if route != LIVE:
            self._meter.observe("phalanx_http_request_seconds", took_s, route)
