"""The gateway's process, from the fork to its end. It builds the parts, and does what its node
orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import socket
import traceback
from typing import Any, NoReturn

from phalanx.errors import AuthenticationError, ProtocolError
from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.observe.log_lines import ERROR
from phalanx.protocol import gateway_messages
from phalanx.protocol.gateway_messages import (
    AddressBook,
    Admit,
    AuthFailed,
    CancelPull,
    GivenUp,
    Knocked,
    KnowTokens,
    Listening,
    Pull,
    Pulled,
    ReleaseFile,
    Unable,
)
from phalanx.protocol.handshake import (
    ClientHello,
    GatewaysHandshake,
    Role,
    Status,
)
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.runtime.daemons import cluster_token, personal_token
from phalanx.runtime.daemons.personal_token import PersonalToken
from phalanx.runtime.gateway.clients import Clients
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.delivery import Delivery
from phalanx.runtime.gateway.dialling import Dialler, is_loopback
from phalanx.runtime.gateway.gate import gate_of
from phalanx.runtime.gateway.gatekeeper import Gatekeeper
from phalanx.runtime.gateway.kept import KeptConnections
from phalanx.runtime.gateway.links import Link
from phalanx.runtime.gateway.listener import Listener, listen
from phalanx.runtime.gateway.object_files import ObjectFiles
from phalanx.runtime.gateway.relay import Relays
from phalanx.runtime.gateway.serving import Serving
from phalanx.runtime.gateway.tls import Identity
from phalanx.runtime.gateway.token_file import TokenFile, TokenOfNobody, Tokens
from phalanx.runtime.gateway.transfers import Transfers
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.connection import listen as listen_unix
from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.process_names import GATEWAY, name_process
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.system import say

_PR_SET_DUMPABLE = 4
_REPORT_S = 1.0
_MAX_FILES = 1 << 20


def run(channel_socket: socket.socket, session: Session, config: GatewayConfig) -> NoReturn:
    """Serve until the other end of the channel closes. This is called in a forked child, and never
    returns.
    """
    code = 1
    LOG.become("gateway")
    try:
        _harden(channel_socket)
        with contextlib.closing(OwnTimeLoop()) as loop:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(Gateway(channel_socket, session, config).serve())
        code = 0
    except BaseException:
        say(cluster_token.redact(traceback.format_exc()), level=ERROR)
    finally:
        os._exit(code)


def _harden(channel_socket: socket.socket) -> None:
    """Keep the token within this process: no core file, no debugger, no sockets of the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # a service manager sends this signal to all processes, but the gateway ends with its node
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.umask(0o077)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    name_process(GATEWAY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kept = channel_socket.fileno()
    os.closerange(3, kept)
    os.closerange(kept + 1, most if most != resource.RLIM_INFINITY else _MAX_FILES)


class OwnTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers for handshakes and dials follow the process's own time.

    This time stands still while the process is stopped. So an answer that came meanwhile is not
    late. The clock notices a stop by the gap between two readings; `_report` reads it each second.
    """

    def time(self) -> float:
        """Return the loop's time in seconds."""
        return own_time()


class _CannotStart(Exception):
    """Raised if the gateway cannot start. The text of the error is sent to the node."""


class Gateway:
    """The parts of the gateway, and the channel to its node."""

    def __init__(
        self, channel_socket: socket.socket, session: Session, config: GatewayConfig
    ) -> None:
        self._session = session
        self._config = config
        self._channel = Connection(channel_socket, decode=gateway_messages.decode_body)
        self._given_up: set[bytes] = set()
        """The prefixes of nodes with another version that the head has declared dead."""

    async def serve(self) -> None:
        """Serve until the channel closes."""
        self._loop = asyncio.get_running_loop()
        self._channel.on_writable = self._want_writable
        try:
            serving = self._start()
        except (_CannotStart, AuthenticationError) as error:
            self._channel.send(Unable(str(error), isinstance(error, AuthenticationError)))
            self._channel.drain_all(1.0)
            return
        ended = self._loop.create_future()
        self._loop.add_reader(self._channel.fileno, self._receive, ended)
        self._receive(ended)  # read the addresses that have already come, before the first dial
        ended_work = {asyncio.ensure_future(work) for work in serving}
        await asyncio.wait({ended, *ended_work}, return_when=asyncio.FIRST_COMPLETED)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(gate_of(self._session))
        for work in ended_work:
            if work.done():
                # This is a fault in Phalanx: it is raised, and the node sees the channel close.
                work.result()

    def _start(self) -> list[Any]:
        config, loop = self._config, self._loop
        tokens, key = self._secrets()
        listening = self._listen()
        host, port = listening.getsockname()[:2]
        identity = None if config.insecure or is_loopback(host) else self._identity(host)
        relays = Relays(loop)
        own = config.prefixes[0]
        self._dialler = Dialler(loop, tokens, config.insecure, own, key)
        self._clients = Clients(loop, self._dialler, relays)
        self._delivery = Delivery(loop, self._session, config.prefixes, relays)
        files = ObjectFiles(self._session)
        self._serving = Serving(loop, files)
        self._kept = KeptConnections(loop, self._dialler)
        self._transfers = Transfers(files, self._kept, self._pulled)
        self._listener = Listener(
            loop,
            tokens,
            insecure=config.insecure,
            identity=identity,
            welcome=self._welcome,
            awaits_tokens=own == CONTROL[:PREFIX_BYTES],
        )
        gatekeeper = Gatekeeper(loop, self._dialler, relays)
        gate = listen_unix(gate_of(self._session))
        fingerprint = identity.fingerprint.hex() if identity else ""
        self._channel.send(Listening(host, port, fingerprint))
        return [
            self._listener.serve(listening),
            gatekeeper.keep(gate, files.open_again),
            self._report(),
        ]

    def _secrets(self) -> tuple[Tokens, PersonalToken | None]:
        """Return the cluster's tokens and None. For a node with a key of its own, return a token
        that nobody else has, and that key.
        """
        path = self._config.token_file
        key = personal_token.parse(cluster_token.read_text(path))
        if key is None or self._config.prefixes[0] == CONTROL[:PREFIX_BYTES]:
            return TokenFile(path), None
        return TokenOfNobody(path), key

    def _listen(self) -> socket.socket:
        host, port = self._config.host, self._config.port
        try:
            return listen(host, port)
        except OSError as error:
            raise _CannotStart(
                f"cannot listen on {host}:{port}: {error.strerror}. Choose another address or "
                "port; port 0 takes any free port."
            ) from None

    def _identity(self, host: str) -> Identity:
        session = self._session
        path = self._config.identity or os.path.join(session.directory, "gateway.pem")
        try:
            return Identity(path, session.name)
        except ImportError:
            raise _CannotStart(
                f"listening on {host}, which other machines reach, needs TLS, and TLS needs the "
                "package cryptography: pip install 'phalanx[cluster]'. With insecure=True "
                "all traffic is unencrypted and can be changed on its way."
            ) from None

    async def _welcome(
        self, link: Link, hello: ClientHello, handshake: GatewaysHandshake, address: str
    ) -> None:
        if hello.role is Role.KNOCK:
            await self._answer_knock(link, hello, handshake)
        elif hello.role is Role.TRANSFER and self._delivery.is_here(hello.target):
            await self._serving.serve(link, handshake)
        elif hello.role is Role.CLIENT_DRIVER:
            await self._clients.connect(link, hello.target.decode("ascii"), handshake)
        elif hello.role in (Role.CLIENT, Role.NODE_KEY):
            token, is_node = hello.target.decode("ascii"), hello.role is Role.NODE_KEY
            await self._delivery.deliver(link, CONTROL, handshake, address, token, is_node)
        else:
            await self._delivery.deliver(link, hello.target, handshake, address)

    async def _answer_knock(
        self, link: Link, hello: ClientHello, handshake: GatewaysHandshake
    ) -> None:
        prefix, status = hello.target[:PREFIX_BYTES], Status.OK
        if hello.version != PROTOCOL_VERSION:
            status = Status.GIVEN_UP if prefix in self._given_up else Status.WRONG_VERSION
            host = link.sock.getpeername()[0]
            self._channel.send(Knocked(prefix, hello.version, host))
        await link.send(handshake.verdict(status))
        link.close()

    # ---- the node ------------------------------------------------------------------------------

    def _receive(self, ended: asyncio.Future[None]) -> None:
        try:
            messages = self._channel.receive()
        except ProtocolError:
            messages = None
        if messages is None:
            self._loop.remove_reader(self._channel.fileno)
            if not ended.done():
                ended.set_result(None)
            return
        for message in messages:
            self._obey(message)

    def _obey(self, message: Any) -> None:
        if isinstance(message, AddressBook):
            self._dialler.update(message.addresses, message.full)
        elif isinstance(message, Pull):
            self._transfers.pull(message)
        elif isinstance(message, CancelPull):
            self._transfers.cancel(message.name)
        elif isinstance(message, ReleaseFile):
            self._transfers.release_file(message.name)
        elif isinstance(message, KnowTokens):
            tokens = {token.encode(): hashes for token, hashes in message.tokens.items()}
            self._listener.know(tokens, frozenset(one.encode() for one in message.nodes))
            expired = {one.encode() for one in message.expired}
            self._clients.know(tokens.keys() - expired)
        elif isinstance(message, Admit):
            self._clients.admit(message)
        elif isinstance(message, GivenUp):
            self._given_up.add(message.prefix)

    def _pulled(self, result: Pulled) -> None:
        self._loop.call_soon_threadsafe(self._channel.send, result)

    def _want_writable(self, channel: Connection, wanted: bool) -> None:
        if wanted:
            self._loop.add_writer(channel.fileno, channel.drain)
        else:
            self._loop.remove_writer(channel.fileno)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            for address, count in self._listener.guard.report().items():
                self._channel.post(AuthFailed(address, count))
            self._channel.flush()
            self._kept.expire()
