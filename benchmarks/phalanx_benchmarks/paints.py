"""Measures pages in Debian's Chromium: the first paint, the CPU time of the server and of the
browser, and redraws of the map of devices.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any

Row = dict[str, Any]

VISITS = 7
REDRAWS = 30
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
) -> list[Row]:
    """Return a row for each page, and rows for redraws of the map on `/nodes`; an empty list
    without Chromium or Playwright. `server_cpu_s` returns the CPU seconds of the server.
    """
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        return []
    from playwright.sync_api import sync_playwright

    rows = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        context.add_cookies([{"name": "c", "value": session, "url": base}])
        page = context.new_page()
        page.set_default_timeout(120_000)
        meter = context.new_cdp_session(page)
        meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        for path in paths:
            rows.append(_visited(page, meter, base + path, path, server_cpu_s))
            if path == "/nodes":
                rows += [_redrawn(page, meter, by) for by in ("holder", "busy")]
        browser.close()
    return rows


def _visited(
    page: Any, meter: Any, address: str, path: str, server_cpu_s: Callable[[], float]
) -> Row:
    times, browser, server = [], [], []
    for _ in range(VISITS):
        page.goto("about:blank")
        before_s = server_cpu_s()
        page.goto(address)
        times.append(page.evaluate(_PAINTED))
        server.append(1e3 * (server_cpu_s() - before_s))
        browser.append(_browser_cpu_ms(meter))
    return _row(f"first paint of {path}", times) | {
        "server CPU ms": median(server),
        "browser CPU ms": median(browser),
    }


def _redrawn(page: Any, meter: Any, by: str) -> Row:
    page.wait_for_selector("#grid-legend li")
    page.select_option("#grid-by", by)
    before_ms = _browser_cpu_ms(meter)
    times = page.evaluate(_REDRAWN, REDRAWS)
    each_ms = (_browser_cpu_ms(meter) - before_ms) / REDRAWS
    return _row(f"redraw of the map by {by}", times) | {"browser CPU ms": each_ms}


def _row(what: str, times_ms: Sequence[float]) -> Row:
    return {"what": what, "ms": median(times_ms), "from": min(times_ms), "to": max(times_ms)}


def _browser_cpu_ms(meter: Any) -> float:
    """Return the CPU milliseconds of the page's main thread since the page was opened."""
    found = {one["name"]: one["value"] for one in meter.send("Performance.getMetrics")["metrics"]}
    return 1e3 * float(found["TaskDuration"])
