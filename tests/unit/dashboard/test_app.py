"""The routes of the page: who may use them, that text of users never becomes HTML, and which
changes are sent. The application is tested without a socket.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import asynccontextmanager
from html.parser import HTMLParser

import httpx
import msgspec
import pytest

from phalanx.dashboard.app import ACTIONS, Dashboard
from phalanx.dashboard.login import Login, make_code
from phalanx.dashboard.pages.what_if import MAX_MANIFEST
from phalanx.dashboard.record import Record
from phalanx.dashboard.static_files import static_path
from phalanx.dashboard.watch import Watch
from phalanx.dashboard.what_if import WhatIf
from phalanx.head.jobs.what_if import Supposition
from phalanx.model.jobs import states as st
from phalanx.protocol.requests.gangs import ShowPlan

from .world import EVIL, NOW, SNAPSHOT, Head, job, node, snapshot

SECRET = b"s" * 32
HOST = "http://127.0.0.1:8266"
OWN = {"sec-fetch-site": "same-origin"}
PAGES = [
    "/", "/?span=24h", "/jobs", "/jobs?state=Pending&sort=-start", "/jobs/default/runs",
    "/jobs/default/next", "/nodes", f"/nodes/{node(1).node_id}", "/queues", "/queues/lab",
    "/plan", "/work", "/work?range=1h", "/work?q=e&state=dead&sort=-uptime",
    f"/work/{2:048x}", "/objects",
    "/history", "/history?period=30d&by=user&user=a", "/what-if",
    "/what-if?add_nodes=1:n0001", "/events",
    "/events?kind=preempted&q=for&job=x%2Fy&user=a&node=n1", "/decisions", "/decisions/2",
    "/health",
]  # fmt: skip


@asynccontextmanager
async def served(
    head: Head | Record, may_act: bool = True, is_in: bool = True, scrape_token: str = "",
    patience_s: float = 60.0,
):  # fmt: skip
    """Return (client, dashboard). The dashboard's watch has asked the head one time."""
    watch = Watch(head.ask, wall=lambda: NOW)
    dashboard = Dashboard(
        watch, Login(SECRET), address="127.0.0.1:6380", cookie="c", may_act=may_act,
        scrape_token=scrape_token, patience_s=patience_s, now=lambda: 100.0,
    )  # fmt: skip
    app = dashboard.app({"127.0.0.1"})
    task = asyncio.create_task(watch.run())
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
        if is_in:
            code = make_code(SECRET, 100.0)
            signed = await client.post("/login", data={"code": code}, headers=OWN)
            assert signed.status_code == 303
        yield client, dashboard
    await watch.close()
    await task


class Reader(HTMLParser):
    """Collects the elements and attributes that no page of Phalanx may have."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag in ("script", "img") and not str(dict(attrs).get("src")).startswith("/static/"):
            self.found.append(tag)


def harmful(html):
    """Return the elements and attributes that run or load foreign content. Fails if a template in a
    name was evaluated.
    """
    reader = Reader()
    reader.feed(html)
    assert "&amp;49" not in html
    return reader.found


def run(coroutine):
    """Return the result of a coroutine; fail after a minute."""
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_every_page_is_written_and_nothing_that_users_write_is_html():
    async def look():
        async with served(Head()) as (client, _):
            for path in PAGES:
                answer = await client.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert not harmful(answer.text), path
                assert "script-src 'self'" in answer.headers["content-security-policy"]
                assert answer.headers["cache-control"] == "no-store"
                data = await client.get(f"/api/v1{path}")
                assert data.status_code == 200, (path, data.text)
                assert data.json()["format"] == "phalanx-dashboard/1"

    run(look())


class LateHead(Head):
    """A head that takes long to answer with a plan."""

    def __init__(self):
        super().__init__()
        self.may_answer = threading.Event()

    def ask(self, request):
        if isinstance(request, ShowPlan):
            self.may_answer.wait(60)
        return super().ask(request)


def test_a_browser_gets_a_page_at_once_and_a_program_the_whole_page():
    async def look():
        head, browser = LateHead(), {"sec-fetch-dest": "document"}
        async with served(head, patience_s=0.0) as (client, _):
            waits = await client.get("/plan", headers=browser)
            assert "The cluster is computing the answer" in waits.text
            assert 'data-live="wait"' in waits.text
            head.may_answer.set()
            whole = await client.get("/plan")
            assert "Expected starts" in whole.text
            assert (await client.get("/plan", headers=browser)).text == whole.text

    run(look())


def test_browsers_keep_scripts_and_styles():
    async def look():
        async with served(Head(), is_in=False) as (client, _):
            found = re.findall(r'"(/static/[^"]+)"', (await client.get("/login")).text)
            assert len(found) >= 3
            for path in found:
                kept = await client.get(path)
                assert kept.status_code == 200
                assert "immutable" in kept.headers["cache-control"]

    run(look())


def test_pages_show_what_they_are_for():
    async def look():
        async with served(Head()) as (client, _):
            overview = (await client.get("/")).text
            assert "1.5 of 4 allocated" in overview
            assert "phalanx status" in overview
            queue = (await client.get("/queues/lab")).text
            assert "borrows 1 GPU; other queues may reclaim it" in queue
            waiting = (await client.get("/jobs/default/next")).text
            assert "Why it waits" in waiting
            assert "number 2 in its queue" in waiting
            assert "<h2>Why it waits" not in (await client.get("/jobs/default/runs")).text
            evil = (await client.get("/jobs?q=onerror")).text
            name = re.search(r'href="(/jobs/default/[^"]+)"', evil)
            assert name is not None
            assert (await client.get(name[1])).status_code == 200

    run(look())


def test_nobody_gets_past_the_way_in_without_a_session():
    async def look():
        async with served(Head(), is_in=False) as (client, dashboard):
            open_ones = set()
            for path in [*PAGES, "/nothing", "/jobs/default/runs/log?member=a"]:
                answer = await client.get(path)
                assert (answer.status_code, answer.headers["location"]) == (303, "/login"), path
            for path in ("/live/", "/live/jobs", "/api/v1/jobs"):
                assert (await client.get(path)).status_code == 401
            files = (f"{static_path()}/{name}" for name in ("page.css", "page.js", "icon.svg"))
            for path in ("/login", *files):
                open_ones.add((await client.get(path)).status_code)
            assert open_ones == {200}
            for path in ("/logout", "/jobs/default/runs/cancel"):
                assert (await client.post(path, headers=OWN)).status_code == 401
            for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/login/../jobs"):
                answer = await client.get(path)
                assert answer.status_code in (303, 404), (path, answer.text)
            assert not dashboard.watch.viewers

    run(look())


def test_a_session_ends_where_it_is_signed_out():
    async def look():
        async with served(Head()) as (client, _):
            kept = client.cookies.get("c")
            cookie = client.cookies.jar
            assert all(one.has_nonstandard_attr("HttpOnly") for one in cookie)
            await client.post("/logout", headers=OWN)
            client.cookies.set("c", kept)
            assert (await client.get("/")).status_code == 303

    run(look())


def test_what_is_not_there_is_said():
    async def look():
        async with served(Head()) as (client, _):
            paths = ("/jobs/default/none", "/nodes/ffff", "/queues/none", "/what", "/jobs/a")
            for path, here in zip(
                paths, (["/jobs"], ["/nodes"], ["/queues"], [], ["/jobs"]), strict=True
            ):
                answer = await client.get(path)
                assert answer.status_code == 404, path
                assert "<h1>Not found</h1>" in answer.text
                assert re.findall(r'<a href="([^"]*)" aria-current="page">', answer.text) == here
                assert (await client.get(f"/api/v1{path}")).status_code == 404

    run(look())


def test_commands_go_to_the_head_as_they_are_and_a_page_that_only_shows_gives_none():
    async def look():
        head = Head()
        async with served(head) as (client, _):
            for action in ACTIONS:
                answer = await client.post(f"/jobs/default/runs/{action}", headers=OWN)
                assert answer.headers["location"] == "/jobs/default/runs"
            assert [(one.name, one.command) for one in head.commands] == [
                ("default/runs", action) for action in ACTIONS
            ]
            gone = await client.post("/jobs/default/runs/explode", headers=OWN)
            assert gone.status_code == 404
            assert (await client.get("/jobs/default/runs/cancel")).status_code == 404
        async with served(head, may_act=False) as (client, _):
            assert (await client.post("/jobs/default/runs/cancel", headers=OWN)).status_code == 403
            assert "<button>Suspend" not in (await client.get("/jobs/default/runs")).text
        assert len(head.commands) == len(ACTIONS)

    run(look())


def test_output_is_read_from_its_end_and_on():
    async def look():
        async with served(Head()) as (client, _):
            first = (await client.get("/jobs/default/runs/log?member=a")).json()
            assert first["text"] == "red <b>one</b>\n100%\nend\n"
            at = f"/jobs/default/runs/log?member=a&offset={first['next']}"
            assert (await client.get(at)).json()["text"] == ""

    run(look())


async def events(response, count):
    """Return the next events of a stream as (name, data)."""
    found, name = [], ""
    async for line in response:
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            found.append((name, json.loads(line[6:])))
            if len(found) == count:
                return found
    return found


class Stream:
    """Reads a stream of the application line by line. ASGITransport could not, because it waits
    until the stream has ended.
    """

    def __init__(self, app, path, cookie):
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._gone = asyncio.Event()
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "method": "GET", "scheme": "http", "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "http_version": "1.1", "asgi": {"version": "3.0"},
            "headers": [(b"host", b"127.0.0.1"), (b"cookie", f"c={cookie}".encode())],
        }  # fmt: skip
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self):
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        for line in message.get("body", b"").decode().split("\n"):
            await self._lines.put(line)

    async def __aiter__(self):
        while True:
            yield await self._lines.get()

    async def end(self):
        self._gone.set()
        await self.task


def test_an_open_page_hears_of_what_changes_and_of_nothing_else():
    async def look():
        head = Head()
        async with served(head) as (client, dashboard):
            app = dashboard.app({"127.0.0.1"})
            html = (await client.get("/jobs")).text
            seen = re.search(r'data-live="(\d+)"', html)
            assert seen is not None
            stream = Stream(app, f"/live/jobs?seen={seen[1]}", client.cookies.get("c"))
            rows = [*head.snapshot.jobs, job("late", st.PENDING, submitted=NOW)]
            rows[0] = job("runs", st.COMPLETED)
            head.snapshot = snapshot(jobs=rows)
            ((name, changes),) = await events(stream, 1)
            assert name == "changes"
            assert set(changes["set"]) == {
                "job-default_2f_runs", "job-default_2f_late", "states", "pages"
            }  # fmt: skip
            assert changes["order"]["rows"][0] == "job-default_2f_late"
            assert dashboard.watch.viewers == 1
            ((_, again),) = await events(stream, 1)
            assert again == {}
            await stream.end()
            assert dashboard.watch.viewers == 0

    run(look())


def test_the_page_of_nodes_gets_all_devices_and_then_what_changes_of_them():
    async def look():
        head = Head()
        async with served(head) as (client, dashboard):
            await client.get("/nodes")
            stream = Stream(dashboard.app({"127.0.0.1"}), "/live/nodes", client.cookies.get("c"))
            ((name, first),) = await events(stream, 1)
            assert (name, first["held"]) == ("grid", [100, 50, 0, 0])
            nodes = [node(1, [0, 0]), node(2)]
            status = msgspec.structs.replace(head.snapshot.status, nodes=nodes)
            head.snapshot = snapshot(status=status)
            found: dict[str, object] = {}
            while "grid" not in found:
                found |= dict(await events(stream, 1))
            assert found["grid"] == {"cells": [[1, 100, -2, 0, 50, 25, 50]]}
            await stream.end()

    run(look())


def test_a_page_whose_thing_has_gone_is_told_so_and_a_head_that_is_away_is_said():
    async def look():
        head = Head()
        async with served(head) as (client, dashboard):
            app = dashboard.app({"127.0.0.1"})
            stream = Stream(app, "/live/jobs/default/runs", client.cookies.get("c"))
            assert (await events(stream, 1))[0][0] == "changes"
            head.error = ConnectionError("nobody answers")
            while not dashboard.watch.trouble:
                await asyncio.sleep(0)
            assert "nobody answers" in (await client.get("/jobs")).text
            head.error = None
            head.snapshot = snapshot(jobs=[])
            while (await events(stream, 1))[0][0] != "gone":
                pass
            await stream.end()

    run(look())


def test_a_head_that_never_answered_is_said_at_once():
    async def look():
        head = Head()
        head.error = ConnectionError("nobody answers")
        async with served(head) as (client, _):
            answer = await client.get("/")
            assert (answer.status_code, "nobody answers" in answer.text) == (503, True)

    run(look())


def test_evil_text_is_in_the_data_as_it_is():
    async def look():
        async with served(Head()) as (client, _):
            rows = (await client.get("/api/v1/jobs")).json()["page"]["listed"]["rows"]
            assert EVIL in {row["name"] for row in rows}

    run(look())


@pytest.mark.parametrize("words", ["code=", "code=x&code=y", "", "a=b&c=d&e=f&g=h"])
def test_a_wrong_code_is_refused(words, monkeypatch):
    monkeypatch.setattr("phalanx.dashboard.app.FAILED_S", 0.0)

    async def look():
        async with served(Head(), is_in=False) as (client, _):
            form = {"content-type": "application/x-www-form-urlencoded"} | OWN
            answer = await client.post("/login", content=words, headers=form)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers

    run(look())


def test_the_page_of_a_failed_job_has_its_last_lines_on_top():
    async def look():
        async with served(Head()) as (client, _):
            page = (await client.get("/jobs/default/broke")).text
            last = page[page.index('<pre class="last"') :].partition("</pre>")[0]
            assert "red &lt;b&gt;one&lt;/b&gt;\n100%\nend" in last
            assert page.index("end") < page.index("<h2>Members")
            page = (await client.get("/jobs/default/runs")).text
            assert '<pre class="last"' not in page

    run(look())


def test_what_is_supposed_is_worked_out_beside_and_nothing_is_applied():
    async def look():
        head = Head()
        async with served(head) as (client, _):

            async def changes(words):
                answer = await client.get(f"/api/v1/what-if?{words}")
                page = answer.json()["page"]
                return page["starts"], page["wrong"]

            (one,), wrong = await changes("add_nodes=1:n0001")
            assert (one["before"], one["after"], one["change"], wrong) == ("-", "now", "starts", "")
            assert await changes("") == (None, "")
            for words, said in (
                ("add_nodes=x", "nodes to add 'x': COUNT:NODE"),
                ("add_nodes=1:n001", "there is no node 'n001'; did you mean 'n0001'?"),
                ("weight=lab", "expected QUEUE=N"),
                ("weight=nobody=2", "there is no queue 'nobody'"),
                ("manifest=%00", "the manifest"),
                ("manifest=" + "a" * (MAX_MANIFEST + 1), f"this page takes {MAX_MANIFEST}"),
            ):
                starts, wrong = await changes(words)
                assert starts is None
                assert said in wrong
            page = (await client.get("/what-if?add_nodes=1:n0001&weight=lab%3D2")).text
            assert "phalanx what-if --add-nodes 1:n0001 --weight lab=2" in page
            assert 'data-live="no"' in page
            assert (await client.get("/live/what-if?add_nodes=1:n0001")).status_code == 404
            assert head.commands == []

    run(look())


def test_what_takes_too_long_or_comes_too_often_is_told_so(monkeypatch):
    async def look():
        supposing = WhatIf()
        supposed = Supposition(add_nodes=(f"1:{1:056x}",))
        monkeypatch.setattr("phalanx.dashboard.what_if.PATIENCE_S", 0.0)
        with pytest.raises(TimeoutError, match="takes longer than 0 s"):
            await supposing.ask(SNAPSHOT, supposed)
        monkeypatch.setattr("phalanx.dashboard.what_if.AT_ONCE", 0)
        with pytest.raises(TimeoutError, match="0 comparisons are under way"):
            await supposing.ask(SNAPSHOT, supposed)

    run(look())


def test_the_history_is_asked_for_as_the_address_says():
    async def look():
        async with served(Head()) as (client, _):
            page = (await client.get("/history?period=30d&by=user&user=a%20b&queue=lab")).text
            assert "phalanx report --since 30d --by user --user &#39;a b&#39; --queue lab" in page
            used = (await client.get("/api/v1/history?by=queue")).json()["page"]["rows"][0]
            assert (used["user"], used["queue"], used["gpu_h"]) == ("", "lab", 1.0)
            assert (used["gpu"], used["gpu_idle_h"]) == (0.25, 0.5)
            odd = (await client.get("/api/v1/history?by=nobody&period=ever")).json()["page"]
            assert (odd["asked"]["by"], odd["asked"]["period"]) == ("both", "7d")

    run(look())


def test_a_probe_without_a_session_hears_only_whether_the_head_answers():
    async def look():
        head = Head()
        async with served(head, is_in=False) as (client, dashboard):
            answer = await client.get("/healthz")
            assert (answer.status_code, answer.text) == (200, "ok\n")
            head.error = ConnectionError("the head is away")
            while not dashboard.watch.trouble:
                await asyncio.sleep(0)
            answer = await client.get("/healthz")
            assert (answer.status_code, answer.text) == (503, "The head gives no answer.\n")
            assert (await client.get("/healthz/jobs")).status_code == 303

    run(look())
