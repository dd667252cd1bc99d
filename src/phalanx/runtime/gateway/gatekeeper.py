"""The gateway's side of the gate (`gate.py`): reads processes' requests, returns sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.protocol.handshake import Role, Status
from phalanx.runtime.gateway.dialling import Dialler
from phalanx.runtime.gateway.gate import (
    ANSWER_BYTES,
    GATE_VERSION,
    REQUEST,
    DialError,
)
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.relay import Relays
from phalanx.runtime.os.connection import listen_again
from phalanx.runtime.os.peer_user import same_user

_AT_ONCE = 1024
_REQUEST_S = 5.0
_DIAL_S = 15.0
_LOOK_EVERY_S = 1.0


class Gatekeeper:
    """Serves the gate's Unix socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dialler: Dialler, relays: Relays) -> None:
        self._loop = loop
        self._dialler = dialler
        self._relays = relays
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def keep(self, listening: socket.socket, look: Callable[[], None]) -> None:
        """Serve until cancelled, even if the socket's file is removed in the meantime.

        `look` is called every _LOOK_EVERY_S seconds.
        """
        serving = asyncio.ensure_future(self.serve(listening))
        try:
            while not serving.done():
                await asyncio.wait({serving}, timeout=_LOOK_EVERY_S)
                look()
                again = listen_again(listening)
                if again is not None:
                    serving.cancel()
                    await asyncio.wait({serving})
                    listening.close()
                    listening = again
                    serving = asyncio.ensure_future(self.serve(listening))
            serving.result()
        finally:
            serving.cancel()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until cancelled."""
        while True:
            await self._slots.acquire()
            try:
                sock, _ = await self._loop.sock_accept(listening)
            except OSError:
                self._slots.release()
                await asyncio.sleep(0.05)
                continue
            task = self._loop.create_task(self._answer(Link(self._loop, sock)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, asker: Link) -> None:
        try:
            same_user(asker.sock)
            request = await asyncio.wait_for(asker.receive(REQUEST.size), _REQUEST_S)
            version, target = REQUEST.unpack(request)
            if version != GATE_VERSION:
                reason = f"the gate speaks version {GATE_VERSION}, not {version}"
                await asker.send(_refusal(Status.WRONG_VERSION, reason))
                return
            await self._dial(asker, target)
        except (TimeoutError, OSError, EOFError, AuthenticationError):
            return
        finally:
            asker.close()
            self._slots.release()

    async def _dial(self, asker: Link, target: bytes) -> None:
        try:
            link = await asyncio.wait_for(self._dialler.dial(target, Role.DIAL), _DIAL_S)
            try:
                self._relays.check(link)
            except DialError:
                link.close()
                raise
        except AuthenticationError as error:
            await asker.send(_refusal(Status.WRONG_TOKEN, str(error)))
        except ProtocolError as error:
            await asker.send(_refusal(Status.WRONG_VERSION, str(error)))
        except DialError as error:
            await asker.send(_refusal(error.status, str(error)))
        except TimeoutError:
            reason = f"no connection in {_DIAL_S:g} s: too many to that node are being opened"
            await asker.send(_refusal(Status.BUSY, reason))
        else:
            with self._relays.open_end(link) as end:
                socket.send_fds(asker.sock, [bytes([Status.OK])], [end.fileno()])


def _refusal(status: Status, reason: str) -> bytes:
    return bytes([status]) + reason.encode()[: ANSWER_BYTES - 1]
