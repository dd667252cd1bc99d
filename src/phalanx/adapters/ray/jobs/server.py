"""The HTTP server of Ray's job API: it handles connections, checks tokens and writes answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import platform
import re
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from urllib.parse import unquote, urlsplit

from phalanx.adapters.ray.jobs.routes import Answer, JobRoutes
from phalanx.errors import JobNotFoundError

SILENCE_S = 60.0
"""Seconds after which a silent connection is closed."""
_LOOK_EVERY_S = 0.2
_TAIL = re.compile("/api/jobs/([^/]+)/logs/tail")
_WEBSOCKET = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The text that is hashed together with a WebSocket's key (RFC 6455, section 1.3)."""
_TEXT, _CLOSE = 0x81, 0x88
_NORMAL = (1000).to_bytes(2, "big")


class JobServer(ThreadingHTTPServer):
    """The server of the job API. It serves only clients that send one of its tokens. It refuses all
    requests of web pages, because any web page can make a browser send requests. It refuses
    requests for another host's name, because such a name can be made to resolve to this machine.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, tokens: Sequence[str], routes: JobRoutes) -> None:
        self._tokens = [token.encode() for token in tokens]
        self.routes = routes
        super().__init__((host, port), _Connection)
        self._hosts = {host, "localhost", platform.node()}

    def knows(self, token: str) -> bool:
        """Whether this is one of the server's tokens."""
        given = token.encode()
        return any(hmac.compare_digest(given, one) for one in self._tokens)

    def is_meant(self, host: str | None) -> bool:
        """Whether a request for this host is meant for this server.

        The host must be one of the server's names, or any IP address. An address is safe, because
        unlike a name it cannot be made to resolve to this machine.
        """
        try:
            ipaddress.ip_address(host or "")
        except ValueError:
            return host in self._hosts
        return True

    def server_bind(self) -> None:
        """Bind without looking up this host's name, which may be slow."""
        TCPServer.server_bind(self)
        self.server_port = int(self.server_address[1])


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    disable_nagle_algorithm = True
    server: JobServer

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing, because requests are not logged."""

    def _serve(self) -> None:
        refused = self._refusal()
        size = self.headers.get("Content-Length") or "0"
        if refused is None and ("Transfer-Encoding" in self.headers or not size.isdigit()):
            refused = Answer(411, "A body needs a Content-Length.")
        if refused is not None:
            self.close_connection = True  # the body is not read
            self._send(refused)
            return
        path = urlsplit(self.path).path
        tail = _TAIL.fullmatch(path)
        if tail and self.command == "GET":
            self._send_log(unquote(tail[1]))
            return
        answer = self.server.routes.answer(self.command, path, self.rfile, int(size))
        # The unread part of a body would be taken for the next request.
        self.close_connection = self.close_connection or (int(size) > 0 and answer.status >= 400)
        self._send(answer)

    def _refusal(self) -> Answer | None:
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        if not self.server.is_meant(host):
            return Answer(403, f"This server does not answer for host {host}.")
        if "Origin" in self.headers:
            return Answer(403, "Requests sent by web pages are refused.")
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer":
            return Answer(401, "Unauthorized: Missing authentication token")
        if not self.server.knows(given.strip()):
            return Answer(403, "Forbidden: Invalid authentication token")
        return None

    def _send(self, answer: Answer) -> None:
        kind, data = answer.encoded()
        self.send_response(answer.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _send_log(self, job: str) -> None:
        """Send the job's log over a WebSocket as it grows."""
        self.close_connection = True
        log = self.server.routes.tail(job)
        try:
            first = next(log, None)
        except JobNotFoundError:
            self._send(Answer(404, f"Job {job} does not exist"))
            return
        key = self.headers.get("Sec-WebSocket-Key")
        if key is None:
            self._send(Answer(400, "No WebSocket UPGRADE hdr: None"))
            return
        digest = hashlib.sha1((key + _WEBSOCKET).encode()).digest()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(digest).decode())
        self.end_headers()
        try:
            if first:
                self.wfile.write(frame(_TEXT, first.encode()))
            for text in log:
                if text is None:
                    time.sleep(_LOOK_EVERY_S)
                elif text:
                    self.wfile.write(frame(_TEXT, text.encode()))
            self.wfile.write(frame(_CLOSE, _NORMAL))
        except (ConnectionError, TimeoutError, JobNotFoundError):
            return  # the client no longer reads, or the job was deleted


def frame(kind: int, data: bytes) -> bytes:
    """Return a complete WebSocket frame, as servers send them (RFC 6455, section 5.2)."""
    size = len(data)
    if size < 126:
        return bytes((kind, size)) + data
    if size < 1 << 16:
        return bytes((kind, 126)) + size.to_bytes(2, "big") + data
    return bytes((kind, 127)) + size.to_bytes(8, "big") + data
