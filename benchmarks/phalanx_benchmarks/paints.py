"""Measures pages in Debian's Chromium: the first paint, the CPU time of the server and of the
browser, and redraws of the map of devices.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any

Row = dict[str, Any]

VISITS = 7
REDRAWS = 30
_PATIENCE_S = 120.0
"""The most seconds for one visit of a page."""
_PAINTED = """new PerformanceObserver((list) => {
  for (const entry of list.getEntriesByName("first-contentful-paint"))
    painted(performance.timeOrigin, entry.startTime,
      document.querySelector("main")?.dataset.live ?? "");
}).observe({ type: "paint", buffered: true });"""
"""A script that reports the first paint of each document: the time at which it was opened, the time
of the paint after that, in milliseconds, and whether it waits for the cluster's answers.
"""
_REDRAWN = """(count) => new Promise((done) => {
  const times = [];
  const frame = () => {
    const begun = performance.now();
    phalanx.grid.draw();
    times.push(performance.now() - begun);
    if (times.length < count) requestAnimationFrame(frame);
    else requestAnimationFrame(() => done(times));
  };
  requestAnimationFrame(frame);
})"""
"""A script that redraws the map, once for each frame, and returns the milliseconds of each call."""


def paints(
    base: str, session: str, paths: Sequence[str], server_cpu_s: Callable[[], float]
) -> Iterator[Row]:
    """Yield a row for each page, and rows for redraws of the map on `/nodes`; nothing without
    Chromium or Playwright. `server_cpu_s` returns the CPU seconds of the server.
    """
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        context.add_cookies([{"name": "c", "value": session, "url": base}])
        visits = _Visits(context, server_cpu_s)
        for path in paths:
            yield visits.row(base + path, path)
            if path == "/nodes":
                yield from (visits.redrawn(by) for by in ("holder", "busy"))
        browser.close()


class _Visits:
    """A tab of the browser that opens pages and measures them."""

    def __init__(self, context: Any, server_cpu_s: Callable[[], float]) -> None:
        self._server_cpu_s = server_cpu_s
        self._paints: list[tuple[float, float, str]] = []
        """The reports of the script since the last visit began."""
        context.expose_function("painted", lambda *paint: self._paints.append(paint))
        context.add_init_script(_PAINTED)
        self._page = context.new_page()
        self._page.set_default_timeout(1e3 * _PATIENCE_S)
        self._meter = context.new_cdp_session(self._page)
        self._meter.send("Performance.enable", {"timeDomain": "threadTicks"})

    def row(self, address: str, path: str) -> Row:
        """Open a page several times. Returns the times of the first paint of anything, and the
        medians of the paint of the whole page and of the CPU time for it.
        """
        first, whole, server, browser = [], [], [], []
        for _ in range(VISITS):
            self._page.goto("about:blank")
            self._paints.clear()
            server_s, browser_ms = self._server_cpu_s(), self._cpu_ms()
            self._page.goto(address)
            self._wait_for_paint(path)
            (opened, took, _), (last_opened, last_took, _) = self._paints[0], self._paints[-1]
            first.append(took)
            whole.append(last_opened + last_took - opened)
            server.append(1e3 * (self._server_cpu_s() - server_s))
            spent_ms = self._cpu_ms()
            browser.append(spent_ms - browser_ms if spent_ms >= browser_ms else spent_ms)
        return _row(f"first paint of {path}", first) | {
            "whole page": median(whole),
            "server CPU ms": median(server),
            "browser CPU ms": median(browser),
        }

    def _wait_for_paint(self, path: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._paints or self._paints[-1][2] == "wait":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} was not painted within {_PATIENCE_S:.0f} s")
            self._page.wait_for_timeout(5)

    def redrawn(self, by: str) -> Row:
        """Redraw the map of devices on the open page several times."""
        self._page.wait_for_selector("#grid-legend li")
        self._page.select_option("#grid-by", by)
        before_ms = self._cpu_ms()
        times = self._page.evaluate(_REDRAWN, REDRAWS)
        each_ms = (self._cpu_ms() - before_ms) / REDRAWS
        return _row(f"redraw of the map by {by}", times) | {"browser CPU ms": each_ms}

    def _cpu_ms(self) -> float:
        """Return the CPU milliseconds that the main thread of the tab's process has spent."""
        metrics = self._meter.send("Performance.getMetrics")["metrics"]
        return 1e3 * float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def _row(what: str, times_ms: Sequence[float]) -> Row:
    return {"what": what, "ms": median(times_ms), "from": min(times_ms), "to": max(times_ms)}
