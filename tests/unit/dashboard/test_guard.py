"""A request is let through only if its host and its headers are among those that the guard
allows.
"""

from __future__ import annotations

import pytest

from phalanx.dashboard.guard import Guard, Refused

PLAIN = [(b"host", b"127.0.0.1:8266")]
OWN = (b"sec-fetch-site", b"same-origin")
ORIGIN = (b"origin", b"http://127.0.0.1:8266")


async def nobody(scope, receive, send):
    raise AssertionError


GUARD = Guard(nobody, {"127.0.0.1", "::1", "localhost", "Box"})


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", PLAIN),
        ("HEAD", [(b"Host", b"localhost")]),
        ("GET", [(b"host", b"[::1]:8266")]),
        ("GET", [(b"host", b"BOX:1")]),
        ("GET", [*PLAIN, (b"sec-fetch-site", b"cross-site")]),
        ("POST", [*PLAIN, OWN]),
        ("POST", [*PLAIN, OWN, ORIGIN]),
        ("POST", [*PLAIN, (b"sec-fetch-site", b"none")]),
        ("POST", [*PLAIN, ORIGIN, (b"content-length", b"65536")]),
        ("POST", [*PLAIN, OWN, (b"transfer-encoding", b"chunked")]),
    ],
)
def test_what_pages_of_this_server_ask_is_let_through(method, headers):
    GUARD.check(method, "http", headers)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", [], 421),
        ("GET", [*PLAIN, *PLAIN], 421),
        ("GET", [(b"host", b"evil.example")], 421),
        ("GET", [(b"host", b"127.0.0.1.evil.example")], 421),
        ("GET", [(b"host", b"evil.example@127.0.0.1")], 421),
        ("GET", [(b"host", b"127.0.0.1/x")], 421),
        ("GET", [(b"host", b"127.0.0.1:port")], 421),
        ("GET", [(b"host", b"[::1")], 421),
        ("GET", [(b"host", b"")], 421),
        ("PUT", PLAIN, 405),
        ("DELETE", [*PLAIN, OWN], 405),
        ("PATCH", [*PLAIN, OWN], 405),
        ("OPTIONS", [*PLAIN, OWN], 405),
        ("get", PLAIN, 405),
        ("POST", PLAIN, 403),
        ("POST", [*PLAIN, (b"sec-fetch-site", b"cross-site")], 403),
        ("POST", [*PLAIN, (b"sec-fetch-site", b"same-site")], 403),
        ("POST", [*PLAIN, OWN, (b"sec-fetch-site", b"cross-site")], 403),
        ("POST", [*PLAIN, (b"origin", b"http://evil.example")], 403),
        ("POST", [*PLAIN, (b"origin", b"null")], 403),
        ("POST", [*PLAIN, (b"origin", b"http://127.0.0.1:9999")], 403),
        ("POST", [*PLAIN, (b"origin", b"https://127.0.0.1:8266")], 403),
        ("POST", [*PLAIN, OWN, (b"origin", b"http://evil.example")], 403),
        ("POST", [*PLAIN, ORIGIN, ORIGIN], 403),
        ("GET", [*PLAIN, (b"content-length", b"1"), (b"transfer-encoding", b"chunked")], 400),
        ("POST", [*PLAIN, OWN, (b"content-length", b"1"), (b"content-length", b"2")], 400),
        ("POST", [*PLAIN, OWN, (b"content-length", b"-1")], 400),
        ("POST", [*PLAIN, OWN, (b"content-length", b"65537")], 413),
    ],
)
def test_everything_else_is_refused(method, headers, status):
    with pytest.raises(Refused) as refused:
        GUARD.check(method, "http", headers)
    assert refused.value.status == status
