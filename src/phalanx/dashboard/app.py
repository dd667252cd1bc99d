"""The routes of the web page, and the check of the viewer's session."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from phalanx import __version__
from phalanx.dashboard.guard import App, Guard
from phalanx.dashboard.http_counts import HttpCounts
from phalanx.dashboard.login import SESSION_S, Login
from phalanx.dashboard.metrics import CONTENT_TYPE, Metrics
from phalanx.dashboard.output import first_offset, part_data
from phalanx.dashboard.pages.device_map import DeviceMaps, Grid, grid_changes
from phalanx.dashboard.rendering import Pieces, Renderer
from phalanx.dashboard.static_files import KeptFiles, static_path
from phalanx.dashboard.views import NAV, STILL, NoSuchPageError, View, Views
from phalanx.dashboard.watch import ClusterSnapshot, Watch
from phalanx.errors import JobNotFoundError, PhalanxError
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.jobs import Command, CommandJob, ReadJobLog

FORMAT = "phalanx-dashboard/1"
OPEN = ("/login", "/static/")
"""The paths that are served without a session, including all paths below them."""
PROBE = "/healthz"
"""The path for programs that check whether the cluster works. It is served without a session."""
ACTIONS: dict[str, Command] = {
    "cancel": "cancel", "suspend": "suspend", "resume": "resume", "hold": "hold",
    "release": "release",
}  # fmt: skip
_FOR_PROGRAMS = ("/live", "/api/", "/metrics")
PING_S = 15.0
"""Seconds without news after which an open page gets an empty message, so that its connection stays
open.
"""
FAILED_S = 1.0
"""Seconds by which the answer to a wrong code is delayed."""
PATIENCE_S = 0.15
"""Seconds for which a browser waits until the cluster answers. If the answers take longer, the
browser gets a page that waits for them.
"""
LATE_S = 5.0
"""Seconds for which a late page is kept. The browser that waits for the page fetches it in this
time.
"""
_SENT = 256
"""The number of sent pages whose pieces are remembered."""
_NO_STORE = {"cache-control": "no-store"}


class Dashboard:
    """The page of one cluster."""

    def __init__(
        self,
        watch: Watch,
        login: Login,
        *,
        address: str,
        cookie: str,
        may_act: bool,
        is_secure: bool = False,
        is_record: bool = False,
        scrape_token: str = "",
        patience_s: float = PATIENCE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cookie`: the name of the cookie, which differs between the servers of a host.
        `is_secure`: the server uses TLS. `is_record`: the page shows a recorded run, which does not
        change. `scrape_token`: requests with this token may read the metrics without a session;
        empty for no such token. `patience_s`: the seconds after which a browser gets a page that
        waits for the answers.
        """
        self._patience_s = patience_s
        self.watch = watch
        self._login = login
        self._views = Views(watch)
        self._renderer = Renderer()
        self._address = address
        self._cookie = cookie
        self._may_act = may_act
        self._is_secure = is_secure
        self._is_record = is_record
        self._scrape_token = scrape_token
        self._http = HttpCounts()
        self._metrics = Metrics(watch, __version__, self._http.numbers)
        self._now = now
        self._maps = DeviceMaps()
        self._sent: OrderedDict[tuple[str, int], Pieces] = OrderedDict()
        """The pieces of sent pages, by address and version of the snapshot."""
        self._late: dict[str, asyncio.Task[Response]] = {}
        """The pages whose answers were late, by address, until shortly after they are written."""

    def app(self, hosts: set[str]) -> App:
        """Return the application. `hosts`: the host names under which it answers."""
        routes = [
            Route("/login", self._show_login, methods=["GET"]),
            Route("/login", self._sign_in, methods=["POST"]),
            Route("/logout", self._sign_out, methods=["POST"]),
            Mount(static_path(), KeptFiles()),
            Route(PROBE, self._show_health, methods=["GET"]),
            Route("/metrics", self._show_metrics, methods=["GET"]),
            Route("/live{path:path}", self._live, methods=["GET"]),
            Route("/api/v1{path:path}", self._data, methods=["GET"]),
            Route("/jobs/{namespace}/{name}/log", self._log, methods=["GET"]),
            Route("/jobs/{namespace}/{name}/{action}", self._act, methods=["POST"]),
            Route("/{path:path}", self._page, methods=["GET"]),
        ]
        return self._http.around(Guard(self._for_members(Starlette(routes=routes)), hosts))

    def _for_members(self, app: App) -> App:
        """Wrap an application so that only requests with a session pass."""

        async def checked(scope: Any, receive: Any, send: Any) -> None:
            path = scope["path"]
            request = Request(scope)
            may_scrape = path == "/metrics" and self._bears_token(request)
            if path == PROBE or path.startswith(OPEN) or may_scrape or self._is_in(request):
                await app(scope, receive, send)
                return
            is_page = scope["method"] == "GET" and not path.startswith(_FOR_PROGRAMS)
            response = (
                RedirectResponse("/login", 303, _NO_STORE)
                if is_page
                else Response("Sign in first.\n", 401, _NO_STORE, "text/plain")
            )
            await response(scope, receive, send)

        return checked

    def _is_in(self, request: Request) -> bool:
        return self._login.is_open(request.cookies.get(self._cookie), self._now())

    def _bears_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._scrape_token.encode())
        return bool(self._scrape_token) and scheme.lower() == "bearer" and is_right

    # ---- sign-in -----------------------------------------------------------------------------

    async def _show_login(self, request: Request) -> Response:
        return self._write_login(failed=False)

    def _write_login(self, failed: bool) -> Response:
        html, _ = self._renderer.page(
            "login.html", title="Sign in", is_in=False, live="no", failed=failed, now=None
        )
        return _html(html, 401 if failed else 200)

    async def _sign_in(self, request: Request) -> Response:
        words = parse_qs((await request.body()).decode("latin-1"), max_num_fields=4)
        session = self._login.redeem(words.get("code", [""])[0], self._now())
        if session is None:
            await asyncio.sleep(FAILED_S)
            return self._write_login(failed=True)
        response = RedirectResponse("/", 303, _NO_STORE)
        response.set_cookie(
            self._cookie,
            session,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )
        return response

    async def _sign_out(self, request: Request) -> Response:
        self._login.close(request.cookies.get(self._cookie))
        response = RedirectResponse("/login", 303, _NO_STORE)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict")
        return response

    # ---- pages -------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        path = request.url.path
        address = _address_of(path, request)
        writing = self._late.get(address) or asyncio.create_task(
            self._guarded(path, lambda snapshot: self._shown(request, path, snapshot))
        )
        is_browser = request.headers.get("sec-fetch-dest") == "document"
        patience_s = self._patience_s if is_browser else None
        if (await asyncio.wait({writing}, timeout=patience_s))[0]:
            return writing.result()
        if address not in self._late:
            self._late[address] = writing
            writing.add_done_callback(lambda _: self._drop_late(address))
        return self._waiting_page(path)

    def _drop_late(self, address: str) -> None:
        """Drop the late page at this address after LATE_S seconds, in which its browser had time to
        load it.
        """
        asyncio.get_running_loop().call_later(LATE_S, self._late.pop, address, None)

    def _waiting_page(self, path: str) -> Response:
        """Return the page that a browser shows until the answers are there. Its script waits for
        them and then loads the page again.
        """
        html, _ = self._renderer.page(
            "waiting.html", title="Waiting for the cluster", trouble="", live="wait", now=None,
            **self._frame(path, "phalanx status"),
        )  # fmt: skip
        return _html(html)

    async def _shown(self, request: Request, path: str, snapshot: ClusterSnapshot) -> Response:
        view = await self._views.build(path, request.query_params, snapshot)
        html, pieces = self._written(view, path, snapshot)
        key = (_address_of(path, request), snapshot.version)
        self._sent[key] = pieces
        if len(self._sent) > _SENT:
            self._sent.popitem(last=False)
        return _html(html)

    async def _data(self, request: Request) -> Response:
        path = request.path_params["path"] or "/"

        async def answer(snapshot: ClusterSnapshot) -> Response:
            view = await self._views.build(path, request.query_params, snapshot)
            data = {"format": FORMAT, "at": snapshot.at, "trouble": snapshot.trouble}
            return _json({**data, "page": by_name(view.page)})

        return await self._guarded(path, answer, is_data=True)

    async def _show_metrics(self, request: Request) -> Response:
        await self.watch.fresh()
        return Response(await self._metrics.text(), 200, _NO_STORE, CONTENT_TYPE)

    async def _show_health(self, request: Request) -> Response:
        """Report whether the head answers. Anybody may ask, so the answer has no details."""
        snapshot = await self.watch.fresh()
        if snapshot is None or snapshot.trouble:
            return Response("The head gives no answer.\n", 503, _NO_STORE, "text/plain")
        return Response("ok\n", 200, _NO_STORE, "text/plain")

    async def _log(self, request: Request) -> Response:
        words, job = request.query_params, _job_of(request)
        member, said = words.get("member", ""), words.get("offset", "")

        async def answer(snapshot: ClusterSnapshot) -> Response:
            if said.isdecimal() and len(said) < 16:
                offset = int(said)
            else:
                size = (await self.watch.ask(ReadJobLog(job, member, -1, 1 << 62))).size
                offset = first_offset(size)
            part = await self.watch.ask(ReadJobLog(job, member, -1, offset))
            return _json(part_data(part, offset))

        return await self._guarded("/jobs", answer, is_data=True)

    async def _act(self, request: Request) -> Response:
        job, action = _job_of(request), ACTIONS.get(request.path_params["action"])

        async def answer(snapshot: ClusterSnapshot) -> Response:
            if action is None:
                raise NoSuchPageError("There is no such command.")
            if not self._may_act:
                return self._message(
                    "/jobs", "Not possible", "This page is read-only.", 403, snapshot
                )
            await self.watch.ask(CommandJob(job, action))
            back = "/".join(quote(part, safe="") for part in job.split("/"))
            return RedirectResponse(f"/jobs/{back}", 303, _NO_STORE)

        return await self._guarded("/jobs", answer)

    async def _guarded(
        self,
        path: str,
        answer: Callable[[ClusterSnapshot], Awaitable[Response]],
        is_data: bool = False,
    ) -> Response:
        """Return the result of `answer`. If it fails, return a page with the reason or, with
        `is_data`, a text.
        """
        snapshot = await self.watch.fresh()
        title = "Not possible"
        try:
            if snapshot is None:
                raise ConnectionError(self.watch.trouble or "The head has not answered yet.")
            return await answer(snapshot)
        except (NoSuchPageError, JobNotFoundError) as error:
            status, text, title = 404, str(error), "Not found"
        except OSError as error:
            status, text = 503, str(error)
        except (PhalanxError, ValueError) as error:
            status, text = 409, str(error)
        if is_data:
            return Response(f"{text}\n", status, _NO_STORE, "text/plain")
        return self._message(path, title, text, status, snapshot)

    def _message(
        self, path: str, title: str, text: str, status: int, snapshot: ClusterSnapshot | None
    ) -> Response:
        html, _ = self._renderer.page(
            "message.html", title=title, text=text, **self._frame(path, "phalanx status"),
            trouble="" if snapshot is None else snapshot.trouble, live="no", now=None,
        )  # fmt: skip
        return _html(html, status)

    def _written(self, view: View, path: str, snapshot: ClusterSnapshot) -> tuple[str, Pieces]:
        return self._renderer.page(
            view.template,
            title=view.title,
            page=view.page,
            trouble=snapshot.trouble,
            now=snapshot.at,
            live="no" if self._is_still(path) else str(snapshot.version),
            may_act=self._may_act,
            **self._frame(path, view.command),
            **view.more,
        )

    def _frame(self, path: str, command: str) -> dict[str, Any]:
        here = "/" if path == "/" else "/" + path.strip("/").split("/")[0]
        return {
            "is_in": True, "nav": NAV, "here": here, "address": self._address, "command": command,
            "is_record": self._is_record,
        }  # fmt: skip

    # ---- what changes ------------------------------------------------------------------------

    def _is_still(self, path: str) -> bool:
        return self._is_record or path in STILL

    async def _live(self, request: Request) -> Response:
        path = request.path_params["path"] or "/"
        if self._is_still(path):
            return Response("This page has no live updates.\n", 404, _NO_STORE, "text/plain")
        return StreamingResponse(
            self._changes(request, path), media_type="text/event-stream", headers=_NO_STORE
        )

    async def _changes(self, request: Request, path: str) -> AsyncIterator[str]:
        """Yield the changes of an open page until its viewer leaves or the session ends."""
        seen = request.query_params.get("seen", "")
        version = int(seen) if seen.isdecimal() and len(seen) < 16 else 0
        shown = self._sent.get((_address_of(path, request), version), Pieces({}, {}))
        devices: Grid | None = None
        self.watch.viewers += 1
        try:
            if path == "/nodes" and self.watch.snapshot is not None:
                devices = await self._grid(self.watch.snapshot)
                yield _event("grid", msgspec.to_builtins(devices))
            while self._is_in(request) and not self.watch.is_over:
                snapshot = await self.watch.newer(version, PING_S)
                if snapshot is None:
                    yield _event("still", {})
                    continue
                version = snapshot.version
                try:
                    view = await self._views.build(path, request.query_params, snapshot)
                except (NoSuchPageError, JobNotFoundError):
                    yield _event("gone", {})
                    return
                except (OSError, PhalanxError):
                    continue
                _, pieces = self._written(view, path, snapshot)
                yield _event("changes", pieces.changes_since(shown))
                shown = pieces
                if path == "/nodes":
                    before, devices = devices, await self._grid(snapshot)
                    if before is None:
                        yield _event("grid", msgspec.to_builtins(devices))
                    elif news := grid_changes(before, devices):
                        yield _event("grid", news)
        finally:
            self.watch.viewers -= 1

    async def _grid(self, snapshot: ClusterSnapshot) -> Grid:
        """Return the map of devices, with the last readings. All viewers share the readings,
        because they cost the head much.
        """
        try:
            seen = await self.watch.shared(ListDevices(), snapshot.version)
        except (OSError, PhalanxError):
            seen = []
        return self._maps.grid(snapshot, seen)


def by_name(value: Any) -> Any:
    """Return `value` as data for JSON. A struct becomes a mapping of its fields."""
    if isinstance(value, msgspec.Struct):
        return {name: by_name(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): by_name(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [by_name(one) for one in value]
    return None if value is msgspec.UNSET else value


def _address_of(path: str, request: Request) -> str:
    words = [(k, v) for k, v in request.query_params.multi_items() if k != "seen"]
    return f"{path}?{json.dumps(words)}"


def _job_of(request: Request) -> str:
    return f"{request.path_params['namespace']}/{request.path_params['name']}"


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _html(text: str, status: int = 200) -> Response:
    return Response(text, status, _NO_STORE, "text/html; charset=utf-8")


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), 200, _NO_STORE, "application/json")
