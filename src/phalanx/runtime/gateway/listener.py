"""Accepts TCP connections, which must authenticate before they reach any process.

Until then, at most one hello and one proof are read from a connection, within 5 seconds, and only
fixed fields are decoded. A peer that fails gets its answer a second later, whatever the failure
was. `Turns` decides which handshakes run at the same time.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.handshake import (
    HELLO_BYTES,
    NO_BINDING,
    NONCE_BYTES,
    PROOF_BYTES,
    ClientAtGateway,
    ClientHello,
    GatewaysHandshake,
    Role,
    Status,
    challenge,
    read_hello,
    refused_verdict,
)
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.runtime.gateway.dialling import is_loopback, keep_alive, shown
from phalanx.runtime.gateway.guard import Guard, origin
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.tls import Identity
from phalanx.runtime.gateway.token_file import Tokens
from phalanx.runtime.gateway.turns import Turns

_HANDSHAKE_S = 5.0
_FAILURE_S = 1.0
_LOOK_EVERY_S = 0.1
"""Seconds between checks of the connections that wait for their turn."""
_TLS_RECORD = b"\x16"
_OF_TOKENS = (Role.CLIENT, Role.NODE_KEY, Role.CLIENT_DRIVER)
"""The roles of peers that have a token of their own."""
_HARMLESS = (OSError, EOFError, ProtocolError, AuthenticationError, asyncio.TimeoutError)

Welcome = Callable[[Link, ClientHello, GatewaysHandshake, str], Awaitable[None]]
"""Takes an authenticated connection. Arguments: the link, the hello, the handshake for the verdict,
and the address.
"""


class _Arrival:
    """A connection that has not yet authenticated."""

    def __init__(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.sock = sock
        self.address = address
        self.origin = origin(address[0])
        self.task: asyncio.Task[None] | None = None
        """The handshake of the connection, once it has begun."""
        self.has_failed = False


class Listener:
    """Accepts and authenticates connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tokens: Tokens,
        *,
        insecure: bool,
        identity: Identity | None,
        welcome: Welcome,
        awaits_tokens: bool,
    ) -> None:
        """`awaits_tokens`: whether the tokens of people, robots and nodes come later, from the
        head. Their holders are not answered before that.
        """
        self._loop = loop
        self._of_cluster = tokens
        self._insecure = insecure
        self._identity = identity
        self._welcome = welcome
        self._tokens: dict[bytes, list[bytes]] = {}
        """The hashes of the tokens of people, robots and nodes, by the tokens' ids."""
        self._node_keys: frozenset[bytes] = frozenset()
        """The ids of those tokens that are keys of nodes."""
        self._knows_tokens = asyncio.Event()
        if not awaits_tokens:
            self._knows_tokens.set()
        self._turns = Turns[_Arrival]()
        self._looks: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.guard = Guard()

    def know(self, tokens: dict[bytes, list[bytes]], node_keys: frozenset[bytes]) -> None:
        """Take these tokens in place of all earlier ones."""
        self._tokens, self._node_keys = tokens, node_keys
        self._knows_tokens.set()

    async def serve(self, listening: socket.socket) -> None:
        """Accept until cancelled."""
        while True:
            try:
                sock, address = await self._loop.sock_accept(listening)
            except OSError:  # the peer has already left, or no descriptors are left
                await asyncio.sleep(0.05)
                continue
            arrival = _Arrival(sock, address)
            dropped = self._turns.arrives(arrival.origin, arrival)  # the oldest, if too many wait
            if dropped is not None:
                self._failed(dropped)
                dropped.sock.close()
            self._begin()

    def _begin(self) -> None:
        """Begin the handshakes whose turn has come. End handshakes that take too long while others
        wait.
        """
        now = self._loop.time()
        while (arrival := self._turns.begins(now)) is not None:
            arrival.task = self._loop.create_task(self._admit(arrival))
            self._tasks.add(arrival.task)
            arrival.task.add_done_callback(self._tasks.discard)
        for late in self._turns.overdue(now):
            self._failed(late)
            if late.task is not None:
                late.task.cancel()
        if self._turns and self._looks is None:
            self._looks = self._loop.call_later(_LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        self._looks = None
        self._begin()

    def _failed(self, arrival: _Arrival) -> None:
        if not arrival.has_failed:
            arrival.has_failed = True
            self.guard.failed(arrival.origin)

    async def _admit(self, arrival: _Arrival) -> None:
        sock, address = arrival.sock, arrival.address
        link = Link(self._loop, sock)
        answer = bytearray()
        try:
            try:
                keep_alive(sock)
                work = self._authenticate(link, answer)
                hello, handshake = await asyncio.wait_for(work, _HANDSHAKE_S)
            except _HARMLESS:
                self._failed(arrival)
                await asyncio.sleep(_FAILURE_S)
                if answer:
                    await asyncio.wait_for(link.send(bytes(answer)), _FAILURE_S)
                raise
            finally:
                self._turns.over(arrival.origin, arrival)
                self._begin()
            await self._welcome(link, hello, handshake, shown(address))
        except _HARMLESS:
            link.close()
        except BaseException:
            link.close()
            raise

    async def _authenticate(
        self, link: Link, answer: bytearray
    ) -> tuple[ClientHello, GatewaysHandshake]:
        """Authenticate the peer by its hello and proof. If that fails, the bytes for the peer are
        added to `answer`.
        """
        binding = NO_BINDING
        if await link.peek() == _TLS_RECORD:
            if self._identity is None:
                raise ProtocolError("it uses TLS, which this gateway does not")
            await link.wrap(self._identity.context, server_side=True)
            binding = self._identity.fingerprint
        nonce = os.urandom(NONCE_BYTES)
        hello = read_hello(await link.receive(HELLO_BYTES))
        if hello.version != PROTOCOL_VERSION and hello.role is not Role.KNOCK:
            answer += challenge(nonce, Status.WRONG_VERSION)
            raise ProtocolError(
                f"its version is {hello.version}, that of this gateway is {PROTOCOL_VERSION}"
            )
        if not (link.is_tls or self._insecure or is_loopback(link.sock.getsockname()[0])):
            answer += challenge(nonce, Status.TLS_WANTED)
            raise ProtocolError("it does not use TLS, which this gateway requires")
        if hello.role in _OF_TOKENS:
            # Just after its start, a head that has not read its tokens would refuse all of them.
            await self._knows_tokens.wait()
        handshake = self._handshake(hello, nonce, binding)
        await link.send(handshake.challenge)
        proof = await link.receive(PROOF_BYTES)
        answer += refused_verdict()
        handshake.check(proof)
        return hello, handshake

    def _handshake(self, hello: ClientHello, nonce: bytes, binding: bytes) -> GatewaysHandshake:
        if hello.role in _OF_TOKENS:
            is_right_kind = (hello.target in self._node_keys) == (hello.role is Role.NODE_KEY)
            # An unknown token must fail as late as a wrong one.
            keys = self._tokens.get(hello.target, []) if is_right_kind else []
            return ClientAtGateway(keys, hello, nonce=nonce, binding=binding)
        return GatewaysHandshake(self._of_cluster.accepted(), hello, nonce=nonce, binding=binding)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(found[0], socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(found[4])
        sock.listen(1024)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
