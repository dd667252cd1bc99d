"""The first check of each request: its host, method and origin must be allowed, and its size must
be small enough.

Any page in a browser can make the browser send requests to this server, and a host name can be made
to resolve to this machine (DNS rebinding). So each request must name this server, and a request
that changes something must come from a page of this server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST"})
"""The allowed methods. GET and HEAD never change anything."""
BODY_BYTES = 64 * 1024
"""The most bytes of a body."""
BODY_S = 10.0
"""The most seconds to wait for the next part of a body."""
_OWN_SITE = frozenset({"same-origin", "none"})

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, forms would have no origin
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Refused(Exception):
    """Raised when a request is refused. `status` is the HTTP status of the refusal."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    """An ASGI application that checks each request before another application gets it."""

    def __init__(self, app: App, hosts: Collection[str]) -> None:
        """`hosts`: the names and addresses, without a port, under which this server answers."""
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message.get("headers", ())}
                more = [header for header in _HEADERS if header[0] not in own]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        try:
            length = self.check(scope["method"], scope["scheme"], scope["headers"])
            body = b"" if length == 0 else await _body(receive)
        except Refused as error:
            await _refuse(guarded, error)
            return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return parts.pop() if parts else await receive()

        await self._app(scope, read, guarded)

    def check(self, method: str, scheme: str, headers: list[tuple[bytes, bytes]]) -> int | None:
        """Check the head of a request. Returns the stated length of the body, or None. Raises
        Refused.
        """
        values: dict[bytes, list[str]] = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = values.get(b"host", [])
        if len(hosts) != 1 or _name_of(hosts[0]) not in self._hosts:
            raise Refused(421, "This server does not answer under this name.")
        if b"content-length" in values and b"transfer-encoding" in values:
            raise Refused(400, "A body must have exactly one length.")
        if method not in METHODS:
            raise Refused(405, "This server takes only GET, HEAD and POST.")
        if method == "POST":
            _check_origin(values, f"{scheme}://{hosts[0].lower()}")
        if b"transfer-encoding" in values:
            return None
        said = values.get(b"content-length", ["0"])
        if len(said) != 1 or not said[0].isdecimal():
            raise Refused(400, "A body must have exactly one length.")
        if int(said[0]) > BODY_BYTES:
            raise Refused(413, f"A body is at most {BODY_BYTES} bytes.")
        return int(said[0])


async def _body(receive: Receive) -> bytes:
    """Return the whole body. Raises Refused for a body that is too long or too slow."""
    body = bytearray()
    while True:
        try:
            message = await asyncio.wait_for(receive(), BODY_S)
        except TimeoutError:
            raise Refused(408, "The body came too slowly.") from None
        body += message.get("body", b"")
        if len(body) > BODY_BYTES:
            raise Refused(413, f"A body is at most {BODY_BYTES} bytes.")
        if not message.get("more_body", False):
            return bytes(body)


def _check_origin(values: dict[bytes, list[str]], own: str) -> None:
    site = values.get(b"sec-fetch-site")
    origin = values.get(b"origin")
    if site is not None:
        is_own = len(site) == 1 and site[0] in _OWN_SITE
    else:
        is_own = origin is not None
    if origin is not None and [one.lower() for one in origin] != [own]:
        is_own = False
    if not is_own:
        raise Refused(403, "Only pages of this server may send this request.")


def _name_of(host: str) -> str | None:
    """Return the name in a Host header, in lower case; None for an invalid header."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises for a wrong port
    except ValueError:
        return None
    if parts.netloc != host or parts.username is not None or parts.path or parts.query:
        return None
    return parts.hostname


async def _refuse(send: Send, error: Refused) -> None:
    body = f"{error}\n".encode()
    await send(
        {
            "type": "http.response.start",
            "status": error.status,
            "headers": [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})
