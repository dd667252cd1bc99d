"""Connects to another gateway, proves the token to it, and reaches a process there."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from typing import Any

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.protocol.handshake import (
    CHALLENGE_BYTES,
    NO_BINDING,
    NONCE_BYTES,
    TARGET_BYTES,
    VERDICT_BYTES,
    ClientsHandshake,
    DiallersHandshake,
    OtherVersionError,
    Role,
    Status,
)
from phalanx.runtime.daemons.personal_token import PersonalToken
from phalanx.runtime.gateway.gate import DialError
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.tls import dialling_context, fingerprint
from phalanx.runtime.gateway.token_file import Tokens

_CONNECT_S = 5.0
_HANDSHAKE_S = 5.0
_DIALS_PER_NODE = 16
_KNOCK_EVERY_S = 1.0
WITH_KEY = "this node has a key of its own, with which it reaches its head and no other node"


class Dialler:
    """Dials the gateways of other nodes, and keeps their addresses."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tokens: Tokens,
        insecure: bool,
        prefix: bytes,
        key: PersonalToken | None = None,
    ) -> None:
        """`prefix`: the prefix of this gateway's own node. `key`: the key of the node, if it has
        one in place of the cluster's token.
        """
        self._key = key
        self._loop = loop
        self._tokens = tokens
        self._insecure = insecure
        self._addresses: dict[bytes, tuple[str, int]] = {}
        self._turns: dict[bytes, asyncio.Semaphore] = {}
        self._tls = None if insecure else dialling_context()
        self._node = prefix + bytes(TARGET_BYTES - len(prefix))
        self._refusal: DialError | ProtocolError | None = None
        """Why the head refused this node. It is kept while the head has another version."""
        self._knock_at = 0.0

    def update(self, addresses: dict[str, tuple[str, int]], full: bool) -> None:
        """Store new addresses; see `AddressBook`. `full`: whether all earlier addresses are dropped
        first.
        """
        if full:
            self._addresses.clear()
        for name, address in addresses.items():
            if address[1]:
                self._addresses[bytes.fromhex(name)] = address
            else:
                self._addresses.pop(bytes.fromhex(name), None)
        for prefix in [p for p in self._turns if p not in self._addresses]:
            del self._turns[prefix]

    def address_of(self, prefix: bytes) -> tuple[str, int]:
        """Return the address of a node's gateway. Raises DialError when the node is not known."""
        try:
            return self._addresses[prefix]
        except KeyError:
            raise DialError(Status.NO_NODE, f"no node {prefix.hex()} is known here") from None

    async def dial(self, target: bytes, role: Role) -> Link:
        """Return a connection that the other gateway has accepted.

        Raises DialError, AuthenticationError or ProtocolError with a human-readable sentence. If
        the head has refused this node because their versions differ, each later call that dials the
        head first knocks: it reports that this node is alive. Such a call fails as the first one
        did until the head has this node's version.
        """
        if self._key is not None:
            if target != CONTROL:
                raise DialError(Status.NO_NODE, WITH_KEY)
            return await self._dial(CONTROL, Role.NODE_KEY)
        if target == CONTROL and self._refusal is not None:
            await self._knock()
        try:
            return await self._dial(target, role)
        except OtherVersionError as error:
            if target == CONTROL:
                self._refusal = error
                await self._knock()
                # The head may have been replaced by now, which the next dialling finds out.
                self._refusal = None
            raise

    async def _knock(self) -> None:
        """Report to the head that this node is alive. Return only if the head now has the same
        version as this node.

        Raises the errors of `dial`, and DialError with GIVEN_UP if the head considers the node
        dead.
        """
        refusal = self._refusal
        if refusal is not None and self._loop.time() < self._knock_at:
            raise refusal
        self._refusal = None  # a head that does not answer a knock may have been replaced by now
        self._knock_at = self._loop.time() + _KNOCK_EVERY_S
        try:
            link = await self._dial(CONTROL, Role.KNOCK, self._node)
        except DialError as error:
            if error.status is Status.GIVEN_UP:
                self._refusal = error
                raise
            if error.status is Status.WRONG_VERSION:
                self._refusal = refusal
            raise refusal or error from None
        link.close()

    async def _dial(self, target: bytes, role: Role, said: bytes = b"") -> Link:
        """Open an authenticated connection to the gateway of the node to which `target` belongs.
        `said`: the id that is sent in the hello; `target` if it is empty.
        """
        prefix = target[:PREFIX_BYTES]
        self.address_of(prefix)
        turn = self._turns.setdefault(prefix, asyncio.Semaphore(_DIALS_PER_NODE))
        async with turn:
            host, port = self.address_of(prefix)  # the node may have left in the meantime
            where = shown((host, port))
            sock = await self._connect(host, port, where)
            link = Link(self._loop, sock)
            try:
                work = self._authenticate(link, said or target, role)
                status = await asyncio.wait_for(work, _HANDSHAKE_S)
                if status is not Status.OK:
                    raise DialError(status, _refusal(status, target, where))
            except BaseException as error:
                link.close()
                raise self._explained(error, where) from None
            return link

    async def _connect(self, host: str, port: int, where: str) -> socket.socket:
        found = await self._resolve(host, port, where)
        family, address = found[0], found[4]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await asyncio.wait_for(self._loop.sock_connect(sock, address), _CONNECT_S)
        except (TimeoutError, OSError) as error:
            sock.close()
            number = getattr(error, "errno", None)
            reason = os.strerror(number) if number else f"no answer in {_CONNECT_S:g} s"
            raise DialError(
                Status.UNREACHABLE, f"nothing listens at {where} ({reason.lower()})"
            ) from None
        except BaseException:
            sock.close()
            raise
        keep_alive(sock)
        return sock

    async def _resolve(self, host: str, port: int, where: str) -> Any:
        kind = socket.SOCK_STREAM
        try:
            return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)[0]
        except OSError:
            pass  # the host is given by name
        try:
            return (await self._loop.getaddrinfo(host, port, type=kind))[0]
        except OSError as error:
            raise DialError(
                Status.UNREACHABLE, f"{where} has no address: {error.strerror}"
            ) from None

    async def _authenticate(self, link: Link, target: bytes, role: Role) -> Status:
        binding = NO_BINDING
        if self._tls is not None and not is_loopback(link.sock.getpeername()[0]):
            binding = fingerprint(await link.wrap(self._tls, server_side=False))
        nonce = os.urandom(NONCE_BYTES)
        side = DiallersHandshake(self._tokens.own(), role=role, target=target, nonce=nonce)
        if self._key is not None:
            own = self._key.id.encode()
            side = ClientsHandshake(own, self._key.secret, nonce=nonce, role=role)
        await link.send(side.hello)
        await link.send(side.proof(await link.receive(CHALLENGE_BYTES), binding))
        return side.finish(await link.receive(VERDICT_BYTES))

    def _explained(self, error: BaseException, where: str) -> BaseException:
        """Return an error that tells the user where the connection failed, and what to do about
        it.
        """
        if isinstance(error, AuthenticationError):
            return AuthenticationError(
                f"the gateway at {where} and this node do not hold the same token: {error}. "
                f"Compare {self._tokens.path} with the token of the cluster's head."
            )
        if isinstance(error, ProtocolError):
            return type(error)(f"cannot talk to {where}: {error}")
        if isinstance(error, EOFError):
            return DialError(
                Status.UNREACHABLE,
                f"{where} hung up during the handshake (perhaps too many connections wait there)",
            )
        if isinstance(error, DialError):
            return error
        if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
            return DialError(
                Status.UNREACHABLE,
                f"the process at {where} did not finish the handshake in {_HANDSHAKE_S:g} s",
            )
        if isinstance(error, OSError):
            return DialError(Status.UNREACHABLE, f"the handshake with {where} broke: {error}")
        return error


def shown(address: tuple[str, int]) -> str:
    """Return HOST:PORT in the form that users write."""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether traffic to an IP address never leaves this machine."""
    address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def keep_alive(sock: socket.socket) -> None:
    """Make a socket send small messages without delay, and end within half a minute after the
    other machine is gone.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)


def _refusal(status: Status, target: bytes, where: str) -> str:
    if status is Status.NO_PROCESS and target == CONTROL:
        return f"a node listens at {where}, not a head"
    if status is Status.NO_PROCESS:
        return f"no such process: {target.hex()} is not at {where}"
    if status is Status.BUSY:
        return f"{where} has all the connections it can hold"
    if status is Status.GIVEN_UP:
        return f"the head at {where} has another version and considers this node dead"
    return f"{where} refused: {status.name}"
