"""Connects clients on other machines with their drivers, at the head's gateway.

The head permits each connection beforehand (`Admit`). A client names the socket of its driver in 16
bytes. The gateway dials the driver's node as another node would, answers with one byte, a `Status`,
and then carries the bytes between client and driver. The driver does not know the tokens of people,
so the gateway checks the client's token: the permission names the one token that may use it.

The job of a driver may have made a cluster of its own. Then the permission also carries that
cluster's token, with which the gateway dials the head of that cluster. The driver waits beside this
head.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.model.ids import OWN_CLUSTER_DOOR, PREFIX_BYTES
from phalanx.protocol.gateway_messages import Admit
from phalanx.protocol.handshake import TARGET_BYTES, GatewaysHandshake, Role, Status
from phalanx.runtime.gateway.dialling import Dialler
from phalanx.runtime.gateway.gate import DialError
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.relay import Relays
from phalanx.runtime.gateway.token_file import OneToken

_VALID_S = 30.0
"""Seconds for which a permission can be used."""
_MOST = 4096
"""The largest number of unused permissions. Above this number, the oldest ones are removed."""
_NAMING_S = 5.0


class Clients:
    """The clients of drivers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dialler: Dialler, relays: Relays) -> None:
        self._loop = loop
        self._dialler = dialler
        self._relays = relays
        self._admitted: dict[tuple[str, bytes], tuple[Admit, float]] = {}
        self._connected: set[tuple[str, Link]] = set()

    def admit(self, permission: Admit) -> None:
        """Let a client with this permission connect to a driver once."""
        key = (permission.token, permission.target)
        self._admitted.pop(key, None)
        self._admitted[key] = (permission, self._loop.time() + _VALID_S)
        while len(self._admitted) > _MOST:
            del self._admitted[next(iter(self._admitted))]

    async def connect(self, link: Link, token: str, handshake: GatewaysHandshake) -> None:
        """Connect a client with the driver that the client names. The client has proved `token`."""
        await link.send(handshake.verdict(Status.OK))
        target = await asyncio.wait_for(link.receive(TARGET_BYTES), _NAMING_S)
        permission, until = self._admitted.pop((token, target), (None, 0.0))
        status = Status.NO_PROCESS
        if permission is not None and self._loop.time() < until:
            try:
                driver = await self._dial(permission, link)
            except DialError as error:
                status = error.status
            except (AuthenticationError, ProtocolError, OSError):
                status = Status.UNREACHABLE
            else:
                await link.send(bytes([Status.OK]))
                self._join(token, link, driver)
                return
        await link.send(bytes([status]))
        link.close()

    def know(self, tokens: Collection[bytes]) -> None:
        """End the connections of clients whose tokens are not among these, which are all valid
        tokens.
        """
        for token, link in list(self._connected):
            if token.encode() not in tokens:
                with contextlib.suppress(OSError):
                    # SSLSocket's own shutdown would leave the socket open.
                    socket.socket.shutdown(link.sock, socket.SHUT_RDWR)

    def _join(self, token: str, link: Link, driver: Link) -> None:
        one = (token, link)
        self._connected.add(one)
        carried = self._relays.join(link, driver)
        carried.add_done_callback(lambda _: self._connected.discard(one))

    async def _dial(self, permission: Admit, link: Link) -> Link:
        self._relays.check(link, always=True)
        target, dialler = permission.target, self._dialler
        if permission.secret:
            target = OWN_CLUSTER_DOOR
            token = OneToken(permission.secret)
            dialler = Dialler(self._loop, token, insecure=False, prefix=target[:PREFIX_BYTES])
        address = permission.host, permission.port
        dialler.update({target[:PREFIX_BYTES].hex(): address}, full=False)
        return await dialler.dial(target, Role.DIAL)
