"""The socket at which a driver waits for its client, and the check of each client that comes.

A connection comes through gateways, which have checked a token, or from a process of the same user.
The client must also prove that it knows the secret of its session before any message is read. So a
program cannot take over the session of another program of its user.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import sys
import threading

import msgspec

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.client_messages import (
    CLIENT_VERSION,
    GREETING_BYTES,
    Greeting,
    Welcome,
    decode_greeting,
)
from phalanx.protocol.frames import encode_frame
from phalanx.runtime.client.channel import Channel, read_frame
from phalanx.runtime.os.connection import listen
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.peer_user import same_user
from phalanx.runtime.os.polling import wait_for

_GREETING_S = 10.0
_HANDED_BYTES = 4096


def python_release() -> str:
    """Return the release of this Python. A pickled function can be read only by the same
    release.
    """
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class Door:
    """The driver's side of all connections of its client."""

    def __init__(self, path: str, secret_hash: bytes, channel: Channel, facts: Welcome) -> None:
        """`path`: the path of the socket. `facts`: the first message to a client."""
        self._secret_hash = secret_hash
        self._channel = channel
        self._facts = facts
        self._listening = listen(path)
        self._path = path
        self._next: tuple[socket.socket, Greeting] | None = None
        """A client that was checked, and is not served yet."""
        self._came = threading.Condition()
        threading.Thread(target=self._accept, name="client door", daemon=True).start()

    def serve(self, first_s: float, again_s: float) -> None:
        """Serve one connection of the client after another, until the channel is closed.

        Returns earlier if the first connection does not come within `first_s` seconds, or a later
        one within `again_s` seconds.
        """
        patience_s = first_s
        while (come := self._wait(patience_s)) is not None:
            patience_s = again_s
            client, greeting = come
            try:
                self._channel.resume(greeting.have)
                welcome = msgspec.structs.replace(self._facts, have=self._channel.received)
                client.sendall(encode_frame([welcome]))
                self._channel.serve(client)
            except OSError:
                client.close()
            except ProtocolError as error:
                print(f"phalanx: the client's connection was ended: {error}", file=sys.stderr)
                client.close()

    def close(self) -> None:
        """Accept no more connections."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        self._listening.close()

    def _wait(self, patience_s: float) -> tuple[socket.socket, Greeting] | None:
        deadline = own_time() + patience_s
        with self._came:
            while self._next is None:
                if self._channel.is_closed or own_time() >= deadline:
                    return None
                self._came.wait(0.5)
            come, self._next = self._next, None
            return come

    def _accept(self) -> None:
        while True:
            try:
                if not wait_for(self._listening.fileno(), 1, 1.0):
                    continue
                sock, _ = self._listening.accept()
            except (OSError, ValueError):
                return  # it is closed
            threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        """Check a client. If it is the right one, use its connection in place of an earlier one."""
        client: socket.socket | None = None
        try:
            sock.settimeout(_GREETING_S)
            same_user(sock)
            client = _handed(sock)
            client.settimeout(_GREETING_S)
            greeting = read_frame(client, GREETING_BYTES, decode_greeting)
            refusal = self._refusal(greeting)
            if refusal:
                client.sendall(encode_frame([Welcome(refusal=refusal)]))
                client.close()
                return
            with self._came:
                if self._next is not None:
                    self._next[0].close()
                self._next = client, greeting
                self._channel.drop()
                self._came.notify_all()
        except (OSError, EOFError, ProtocolError, AuthenticationError):
            if client is not None:
                client.close()
        finally:
            sock.close()

    def _refusal(self, greeting: object) -> str:
        if not isinstance(greeting, Greeting):
            raise ProtocolError("a client begins with a greeting")
        if not hmac.compare_digest(hashlib.sha256(greeting.secret).digest(), self._secret_hash):
            return "this session belongs to another client"
        if greeting.version != CLIENT_VERSION:
            return (
                f"the client speaks version {greeting.version} and the cluster version "
                f"{CLIENT_VERSION}: install the same release of phalanx on both"
            )
        if greeting.python != python_release():
            return (
                f"the client runs Python {greeting.python} and the cluster Python "
                f"{python_release()}: functions can be sent only between the same"
            )
        if greeting.process not in (b"", self._facts.process):
            return "the driver was lost and started again, and the work of the first one is gone"
        return ""


def _handed(sock: socket.socket) -> socket.socket:
    """Return the client's socket, which the gateway passes over a connection to this process."""
    data, fds, _, _ = socket.recv_fds(sock, _HANDED_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
    if not fds:
        raise ProtocolError("no connection was passed" if data else "it hung up")
    return socket.socket(fileno=fds[0])
