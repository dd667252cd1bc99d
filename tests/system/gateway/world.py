"""Real gateways, and stand-ins for processes. A stand-in is only a Unix socket."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from tests.system.gateway.child import Start
from tests.warm import popen_in_use

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.frames import FrameReader
from phalanx.protocol.gateway_messages import AddressBook, Listening, decode_body
from phalanx.protocol.handshake import Status
from phalanx.protocol.messages import Handed
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.gate import ANSWER_BYTES, DialError, request_dial
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import Connection, listen

LIMIT_S = 120.0
ROOT = Path(__file__).parents[3]


def readable(sock, timeout_s=LIMIT_S):
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def take_socket(sock):
    """Return the socket that was requested. Raises an error if the answer is a refusal. Closes
    `sock`.
    """
    data, fds, _, _ = socket.recv_fds(sock, ANSWER_BYTES, 1)
    sock.close()
    if fds:
        return socket.socket(fileno=fds[0])
    status, reason = Status(data[0]), data[1:].decode("utf-8", "replace")
    if status is Status.WRONG_TOKEN:
        raise AuthenticationError(reason)
    if status is Status.WRONG_VERSION:
        raise ProtocolError(reason)
    raise DialError(status, reason)


class Node:
    """A session with a gateway. The object itself plays the node at the other end of the gateway's
    channel.
    """

    def __init__(self, directory, token_file, prefix=None, **config):
        self.is_killed = False
        self.token_file = str(token_file)
        self.prefix = secrets.token_bytes(6) if prefix is None else prefix
        self.session = sessions.create(str(directory))
        self._stack = contextlib.ExitStack()
        self._stack.callback(sessions.remove, self.session)
        ours, theirs = socket.socketpair()
        self.errors_path = Path(directory) / f"errors-{self.session.name}"
        start = Start(
            self.session,
            GatewayConfig(prefixes=(self.prefix,), token_file=str(token_file), **config),
        )
        with theirs, open(self.errors_path, "wb") as errors:
            self.process = popen_in_use()(
                [sys.executable, "-m", "tests.system.gateway.child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
            )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(start))
        self.process.stdin.close()
        self.channel = Connection(ours, decode=decode_body)
        self._messages = []
        self.first = self.wait_for(object)
        if isinstance(self.first, Listening):
            self.address = (self.first.host, self.first.port)

    def wait_for(self, kind):
        """Return the next message of this kind; drop others."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if isinstance(message, kind):
                    return message
            assert readable(self.channel.sock, deadline - time.monotonic()), f"no {kind} came"
            came = self.channel.receive()
            assert came is not None, f"the gateway has ended: {self.errors()}"
            self._messages += came

    def know(self, *others):
        book = {other.prefix.hex(): other.address for other in others}
        self.channel.send(AddressBook(book))

    def open_process(self, process=None):
        """Open the listening socket of a process of this node. Returns the process id and the
        socket.
        """
        process = process or self.prefix + secrets.token_bytes(10)
        name = b"node" if process == self.prefix + bytes(10) else process
        sock = listen(self.session.socket_of(name))
        sock.setblocking(True)
        sock.settimeout(LIMIT_S)
        self._stack.callback(sock.close)
        return process, sock

    def ask(self, target):
        """Return the socket that the gate gives for a target. Raises the gate's refusal."""
        sock = request_dial(self.session, target)
        assert readable(sock)
        peer = take_socket(sock)
        peer.settimeout(LIMIT_S)
        return peer

    def errors(self):
        return self.errors_path.read_text()

    def close(self):
        """End the gateway as its node would, and return its exit code."""
        self.channel.close()
        try:
            return self.process.wait(LIMIT_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._stack.close()


def take_handed(listening):
    """Accept a connection that the gateway hands to a process of the node. Returns (the socket of
    the peer on another node, the peer's address).
    """
    carrier, _ = listening.accept()
    with carrier:
        carrier.settimeout(LIMIT_S)
        data, fds, _, _ = socket.recv_fds(carrier, 4096, 1)
    (message,) = FrameReader().feed(data)
    assert isinstance(message, Handed)
    peer = socket.socket(fileno=fds[0])
    peer.settimeout(LIMIT_S)
    return peer, message.address


def receive_exactly(sock, size):
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, f"the stream ended after {len(data)} of {size} bytes"
        data += piece
    return bytes(data)


def new_token(directory):
    path = os.path.join(directory, "token")
    cluster_token.ensure(path)
    return path


def resident_bytes(pid):
    """Return the memory that a process holds, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
