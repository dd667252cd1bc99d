"""The process that serves the page: its address, its secrets and its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import ipaddress
import json
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn

from phalanx.dashboard.app import Dashboard
from phalanx.dashboard.login import Login
from phalanx.dashboard.record import read
from phalanx.dashboard.watch import Watch
from phalanx.dashboard.wire import HEAD_BYTES, StrictProtocol
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.daemons.finding import HeadHere
from phalanx.runtime.os import serving

PORT = 8266
"""The default port, next to the port of Ray's job API."""
CONNECTIONS = 256
"""The most connections at a time."""
_LOOK_EVERY_S = 1.0
_GONE_AFTER = 5
"""The server ends after this number of successive checks without a head or node of the cluster on
this machine.
"""


class Options(msgspec.Struct, kw_only=True):
    """The options of a server."""

    cluster: str
    host: str = "127.0.0.1"
    port: int | None = None
    """The port; None: PORT, or any free port if PORT is taken."""
    names: list[str] = []
    """Additional host names under which the server answers."""
    may_act: bool = True
    certificate: str = ""
    key: str = ""
    """The files with the certificate and the key, in PEM. Without them the server does not use
    TLS.
    """
    record: str = ""
    """The file of a record that is served instead of a cluster (see the module `record`)."""


def place() -> Path:
    """Return the directory in which this user's servers register."""
    return serving.place_of("dashboard")


def secret(port: int) -> bytes:
    """Return the secret from which codes for the server at a port are made.

    Raises AuthenticationError for a file that other users may have read.
    """
    path = str(place() / "secret")
    cluster_token.ensure(path)
    return hmac.digest(cluster_token.read(path), f"port {port}".encode(), "sha256")


def scrape_token_file() -> str:
    """Return the file with Prometheus' token for the metrics; make it if needed.

    Raises AuthenticationError for a file that other users may have read.
    """
    path = str(place() / "metrics-token")
    cluster_token.ensure(path)
    cluster_token.read(path)  # checks the file
    return path


def start(options: Options) -> serving.Serving:
    """Start a server in the background. The server ends with its cluster. Raises SystemFailureError
    if the server cannot start.
    """
    words = msgspec.json.encode(options).decode()
    return serving.start(place(), "phalanx.dashboard.serve", [words])


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_of(options: Options) -> set[str]:
    """Return the host names under which the server answers."""
    own = {options.host.lower(), *(name.lower() for name in options.names)}
    if is_loopback(options.host):
        return own | {"localhost", "127.0.0.1", "::1"}
    return own | {platform.node().lower(), "localhost", "127.0.0.1", "::1"} - {"0.0.0.0", "::"}


def listen(options: Options) -> socket.socket:
    """Return a socket that listens where the options say. A browser that comes before the server
    has started waits for the start.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, PORT if options.port is None else options.port))
    except OSError as error:
        if options.port is not None or error.errno != errno.EADDRINUSE:
            raise
        listener.bind((options.host, 0))
    listener.listen(CONNECTIONS)
    return listener


class _Server(uvicorn.Server):
    """A server that closes open streams when it ends. Otherwise the server would wait forever for
    the end of the streams.
    """

    on_exit: Callable[[], Awaitable[None]]
    _ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        asyncio.get_event_loop().call_soon_threadsafe(self._begin_end)

    def _begin_end(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        await self.on_exit()
        self.should_exit = True


class _File:
    """The file of a record. It is served until it is deleted."""

    def __init__(self, path: str) -> None:
        self._path = path

    def is_here(self) -> bool:
        return os.path.exists(self._path)


def _source(options: Options) -> tuple[HeadHere | _File, Watch]:
    """Return the object that decides whether the server goes on, and the watch that it serves."""
    if not options.record:
        head = HeadHere(options.cluster)
        return head, Watch(head.ask)
    found = read(options.record)
    watch = Watch(found.ask, wall=lambda: found.title.at)
    watch.series = found.series
    return _File(options.record), watch


def _called(options: Options) -> str:
    """Return the name of the cluster or record that the page shows, for display."""
    if not options.record:
        return options.cluster
    title = read(options.record).title
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(title.at))
    return f"{title.cluster}, as recorded {when}"


async def _serve(options: Options, listener: socket.socket) -> None:
    port = int(listener.getsockname()[1])
    head, watch = _source(options)
    is_secure = bool(options.certificate)
    dashboard = Dashboard(
        watch,
        Login(secret(port)),
        address=_called(options),
        cookie=f"phalanx_{port}",
        may_act=options.may_act,
        is_secure=is_secure,
        is_record=bool(options.record),
        scrape_token=Path(scrape_token_file()).read_text().strip(),
    )
    server = _Server(
        uvicorn.Config(
            dashboard.app(hosts_of(options)),
            http=StrictProtocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=3,
            ssl_certfile=options.certificate or None,
            ssl_keyfile=options.key or None,
        )
    )

    async def until_gone() -> None:
        missed = 0
        while missed < _GONE_AFTER:
            await asyncio.sleep(_LOOK_EVERY_S)
            missed = 0 if await asyncio.to_thread(head.is_here) else missed + 1
        server.handle_exit(signal.SIGTERM, None)

    server.on_exit = watch.close
    tasks = [asyncio.create_task(watch.run()), asyncio.create_task(until_gone())]
    scheme = "https" if is_secure else "http"
    said = serving.announce(place(), serving.url_of(options.host, port, scheme), options.cluster)
    print(json.dumps(msgspec.to_builtins(said)), flush=True)
    sys.stdout.close()
    try:
        await server.serve([listener])
    finally:
        await watch.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main(words: str) -> None:
    """Serve until the cluster has gone from this machine.

    The first line of output is the address, or the reason why the server cannot start.
    """
    os.umask(0o077)
    options = msgspec.json.decode(words, type=Options)
    try:
        listener = listen(options)
        if options.record:
            read(options.record)
    except ValueError as error:
        print(error, flush=True)
        return
    except OSError as error:
        print(f"{error.filename or f'{options.host}:{options.port}'}: {error.strerror}", flush=True)
        return
    with contextlib.closing(listener):
        asyncio.run(_serve(options, listener))


if __name__ == "__main__":
    main(*sys.argv[1:])
