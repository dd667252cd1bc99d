"""The head's process: the head behind a gateway. It never unpickles."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from phalanx.errors import AuthenticationError
from phalanx.head.head import NOTHING_STORED, Head
from phalanx.head.outbox import Outbox
from phalanx.head.rights.control import RightsSetup
from phalanx.head.rights.tokens import Hashes
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, StoredState, read_state
from phalanx.model.garbage import collect_rarely, uncollected
from phalanx.model.ids import CONTROL, PREFIX_BYTES
from phalanx.observe.log_lines import ERROR, WARNING
from phalanx.observe.metrics.catalogue import HEAD
from phalanx.observe.metrics.meter import Meter
from phalanx.protocol import gateway_messages
from phalanx.protocol.asking import Ask
from phalanx.protocol.gateway_messages import (
    Admit,
    AuthFailed,
    GivenUp,
    Knocked,
    KnowTokens,
    Listening,
    Unable,
)
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.runtime.daemon_registry import register
from phalanx.runtime.daemons.daemon_files import Announcement, Failure, announce
from phalanx.runtime.daemons.shared_sockets import SharedSocket
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.starting import GatewayStarter
from phalanx.runtime.head.audit_file import AuditFile
from phalanx.runtime.head.config import HeadConfig
from phalanx.runtime.head.ledger_thread import LedgerThread
from phalanx.runtime.head.standby import LOST_TO_ANOTHER, stand_by_again, wait_for_turn
from phalanx.runtime.head.warming import Warming
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import Connection, listen
from phalanx.runtime.os.connection_loop import ConnectionLoop
from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.file_modes import keep_private
from phalanx.runtime.os.helpers import Deaths
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.package_files import PackageDirectory
from phalanx.runtime.os.peer_identity import groups_of, own_principal
from phalanx.runtime.os.probing import ThreadProber
from phalanx.runtime.os.process_names import HEAD as HEAD_NAME
from phalanx.runtime.os.process_names import name_process
from phalanx.runtime.os.session_keeper import SessionKeeper
from phalanx.runtime.os.system import SystemClock, boot_id, log_defect, say, unforeseeable
from phalanx.storage.errors import StorageCorruptError, StorageError, StorageFullError
from phalanx.storage.journal import Journal
from phalanx.storage.lease import BEAT_S, needs_beats
from phalanx.storage.naming import storage_name
from phalanx.storage.storage import Storage

if TYPE_CHECKING:
    from phalanx.runtime.head.signing import SignedGrants


class HeadProcess:
    """The connections of nodes, the gateway's channel, and the head."""

    def __init__(self, config: HeadConfig, gateway: socket.socket, starter: GatewayStarter) -> None:
        """`gateway`: the channel to the gateway that `starter` has started."""
        self._config = config
        self._starter = starter
        self._gateway_deaths = Deaths(own_time)
        self._port = 0
        """The port on which the gateway listens; 0 until that is known."""
        self._gateway = Connection(gateway, decode=gateway_messages.decode_body)
        self._loop = ConnectionLoop(
            self,
            listen(config.session.socket_of(b"control")),
            self._gateway,
            lambda error: self._control.internal_errors.add("connection", error),
        )
        self._nodes: dict[bytes, Connection] = {}
        self._with_tokens: dict[int, Connection] = {}
        """The connections of people, robots and nodes that have tokens of their own, by
        descriptor.
        """
        self._shared: SharedSocket | None = None
        self._is_quiet = False
        """Whether no message has come since the last tick."""
        self.has_lost_store = False
        """Whether the head ends because another head holds its store."""
        self._beats = needs_beats(config.store)
        self._beat_at = 0.0
        storage = _open(config)
        with uncollected():  # the stored rows are many, and stay in a queue for a long time
            stored = NOTHING_STORED if storage is None else _read(storage)
            self._journal = None if storage is None else Journal(storage)
            history = config.history or os.path.join(config.session.directory, "history.db")
            state_store = StateStore(self._journal, storage_name(config.store))
            self._control = Head(
                Outbox(self._send, state_store),
                state_store,
                HeadShell(
                    clock=SystemClock(),
                    boot=boot_id(),
                    rng=unforeseeable(),
                    prober=ThreadProber(),
                    report_defect=log_defect,
                    ledger=LedgerThread(history, config.history_limits, self._loop.call),
                    read_log=LOG.read,
                    look=self._look,
                    packages=PackageDirectory(packages_path(config)),
                ),
                stored=stored,
                setup=HeadSetup(
                    cluster="" if storage is None else storage.cluster,
                    limits=config.limits,
                    placement=config.placement,
                    settings=config.settings,
                    standbys=config.standbys,
                ),
                rights=RightsSetup(
                    is_shared=config.is_shared,
                    owner=own_principal().name,
                    audit=AuditFile(audit_path(config)),
                    groups_of=groups_of,
                    know_tokens=self._know_tokens,
                    admit=self._admit,
                    grants=_grants(config),
                ),
            )
        collect_rarely()
        self._warming = Warming()
        self._keeper = SessionKeeper(config.session)
        if self._journal is not None:
            journal = self._journal
            journal.on_commit = self._committed
            self._loop.read_from(journal.fileno(), lambda: self._or_end(journal.deliver))
        if config.parent_fd >= 0:
            self._loop.read_from(config.parent_fd, self._stop)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop())

    def _stop(self) -> None:
        self._loop.stop()

    def _or_end(self, write: Callable[[], None]) -> None:
        """Write to the store. If the store refuses permanently, end the head.

        The next head then reads the store.
        """
        try:
            write()
        except StorageError as error:
            self.has_lost_store = isinstance(error, LOST_TO_ANOTHER)
            say(f"the head ends, as its store fails: {error}")
            self._stop()

    def serve(self) -> None:
        """Run until a stop is requested, or until something fails without which no head can run."""
        self._loop.serve()
        if self._shared is not None:
            self._shared.close()
        if self._journal is not None:
            try:
                self._journal.close()
            except StorageFullError as error:
                # Changes that were not written were not confirmed, either.
                say(f"the head ends while its store is full: {error}")
            except LOST_TO_ANOTHER:
                self.has_lost_store = True

    def _committed(self, seconds: float) -> None:
        self._control.meter.observe("phalanx_store_commit_seconds", seconds)

    def _look(self, meter: Meter) -> None:
        """Put the numbers into the meter that only this process knows."""
        # this connection is the gateway's
        visitors = self._loop.connection_count - len(self._nodes) - 1
        meter.set("phalanx_connections", len(self._nodes), "node")
        meter.set("phalanx_connections", visitors, "visitor")
        meter.set("phalanx_journal_bytes", self._journal.waiting_bytes if self._journal else 0)
        meter.set("phalanx_store_bytes", self._store_bytes())
        meter.set("phalanx_loop_lag_seconds", self._loop.take_lag(), "", HEAD)
        meter.set("phalanx_frames_rejected_total", self._loop.rejected, "", HEAD)

    def _store_bytes(self) -> int:
        if self._journal is None:
            return 0
        from phalanx.storage.opening import store_bytes

        return store_bytes(self._config.store)

    def _send(self, prefix: bytes, message: Any) -> None:
        connection = self._nodes.get(prefix)
        if connection is not None:
            connection.post(message)

    def on_message(self, connection: Connection, message: Any) -> None:
        """Handle a message, according to the connection over which it came."""
        self._is_quiet = False
        if connection is self._gateway:
            self._from_gateway(message)
        elif connection.tag == "node":
            prefix = connection.peer[:PREFIX_BYTES]
            self._control.on_message(prefix, message, connection.node_key)
        elif isinstance(message, Hello) and message.kind == "node":
            if message.version != PROTOCOL_VERSION:
                self._loop.lose(connection)
                return
            prefix = message.process[:PREFIX_BYTES]
            if connection.node_key:
                if not self._control.node_keys.is_own_prefix(connection.node_key, prefix):
                    self._loop.lose(connection)
                    return
                self._with_tokens[connection.fileno] = connection
            before = self._nodes.get(prefix)
            if before is not None:
                self._loop.lose(before)
            connection.peer, connection.tag = message.process, "node"
            self._nodes[prefix] = connection
        elif isinstance(message, Ask) and not connection.node_key:
            self._from_visitor(connection, message)
        else:
            self._loop.lose(connection)

    def _from_visitor(self, connection: Connection, ask: Ask) -> None:
        if connection.token:
            try:
                connection.act_as(self._control.tokens.principal(connection.token))
            except AuthenticationError:  # the token was revoked just now
                self._loop.lose(connection)
                return
            self._with_tokens[connection.fileno] = connection
        self._control.answering.answer_visitor(connection, ask)

    def _know_tokens(self, hashes: Hashes) -> None:
        """Tell the gateway the known tokens, and end the connections of tokens that were revoked or
        have expired.
        """
        tokens = self._control.tokens
        expired = tokens.expired()
        self._gateway.post(KnowTokens(hashes, tokens.node_ids(), expired))
        valid = hashes.keys() - expired
        for connection in list(self._with_tokens.values()):
            if (connection.token or connection.node_key) not in valid:
                self._loop.lose(connection)

    def _admit(self, admit: Admit) -> None:
        self._gateway.send(admit)

    def _from_gateway(self, message: Any) -> None:
        match message:
            case Listening():
                self._know_tokens(self._control.tokens.hashes())
                address, self._port = f"{message.host}:{message.port}", message.port
                self._control.address = address
                if self._config.is_shared and not self._share(message.port):
                    return
                me = Announcement(
                    kind="head",
                    pid=os.getpid(),
                    started=sessions.started_at(os.getpid()) or "",
                    address=address,
                    token_file=self._config.token_file,
                    is_private=self._config.is_private,
                    standbys=self._config.standbys,
                    fingerprint=message.fingerprint,
                )
                if self._shared is not None:
                    me = msgspec.structs.replace(me, shared=self._shared.directory)
                    self._shared.announce(me)
                register(self._config.session, me)
                announce(self._config.session, self._config.ready_fd, me)
                self._keeper.remember()
            case Unable():
                failure = Failure(message.reason, message.is_about_token)
                announce(self._config.session, self._config.ready_fd, failure)
                self._stop()
            case Knocked():
                if self._control.knocked(message.prefix, message.version, message.host):
                    self._gateway.post(GivenUp(message.prefix))
            case AuthFailed():
                count = message.count
                self._control.meter.add("phalanx_auth_failures_total", "", HEAD, by=count)
                say(f"{message.count} connections from {message.address} did not know the token")

    def _share(self, port: int) -> bool:
        """Listen for other users. Returns True if that is possible; otherwise the head ends."""
        try:
            self._shared = SharedSocket(port, self._config.group)
        except (OSError, ValueError) as error:
            reason = f"other users cannot reach the head: {error}"
            announce(self._config.session, self._config.ready_fd, Failure(reason))
            self._stop()
            return False
        self._loop.serve_others(self._shared.listening)
        return True

    def on_lost(self, connection: Connection) -> None:
        """Handle the end of a connection."""
        self._with_tokens.pop(connection.fileno, None)
        if connection is self._gateway:
            self._gateway_lost()
        elif connection.tag == "node":
            prefix = connection.peer[:PREFIX_BYTES]
            if self._nodes.get(prefix) is connection:
                del self._nodes[prefix]
                self._control.on_lost(prefix)

    def _gateway_lost(self) -> None:
        """Start another gateway at the same port. If none can be started, the head ends."""
        self._gateway_deaths.add()
        self._starter.note_end()
        how = self._starter.how_lost
        if not self._port or self._gateway_deaths.are_too_many():
            say(f"the head ends, as its gateway {how}", level=ERROR)
            self._stop()
            return
        try:
            channel = self._starter.start_again(self._port)
        except OSError as error:
            say(f"the head ends: its gateway cannot be started again: {error}", level=ERROR)
            self._stop()
            return
        say(f"the gateway {how}, and is started again", level=WARNING)
        self._gateway = Connection(channel, decode=gateway_messages.decode_body)
        self._loop.watch(self._gateway)

    def on_tick(self, now: float) -> None:
        """Do the work that is due."""
        self._keeper.tick(now)
        self._control.on_tick(now)
        if self._beats and now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self._control.state_store.beat()
        if self._is_quiet:
            self._warming.step()
        self._is_quiet = True

    def on_round(self) -> None:
        """Finish a round: send the answers, and write to the store."""
        self._loop.wake_at(self._control.on_round(own_time()))
        self._or_end(self._control.state_store.flush)


def packages_path(config: HeadConfig) -> str:
    """Return the directory of the packages of jobs, which is beside the head's history. Without a
    file for the history, it is in the session's directory.
    """
    if not config.history:
        return os.path.join(config.session.directory, "packages")
    return f"{config.history.removesuffix('.history')}.packages"


def identity_path(config: HeadConfig) -> str:
    """Return the path of the certificate that the head's gateway shows; "" for a file in the
    session's directory. The file is beside the history, so that logins recognize the next head of
    this store.
    """
    return f"{config.history.removesuffix('.history')}.pem" if config.history else ""


def audit_path(config: HeadConfig) -> str:
    """Return the path of the head's audit log."""
    return config.audit or os.path.join(config.session.directory, "audit.log")


def _grants(config: HeadConfig) -> SignedGrants | None:
    if not config.launch_keys:
        return None
    from phalanx.runtime.head.signing import SignedGrants

    return SignedGrants(config.launch_keys)


def _open(config: HeadConfig) -> Storage | None:
    if config.store == ("memory",):
        return None
    from phalanx.storage.opening import open_storage

    return open_storage(
        config.store,
        by_key={"actors": 16, "groups": 18},
        marks=config.marks,
        cluster=config.cluster,
        accept_loss=config.accept_loss,
    )


def _read(storage: Storage) -> StoredState:
    try:
        return read_state(storage)
    except msgspec.MsgspecError as error:
        raise StorageCorruptError(
            f"{storage} has a row that cannot be read ({error}). Put a copy of the store back, or "
            "open it with the version that wrote it."
        ) from error


def main() -> NoReturn:
    """Read the configuration from standard input, wait if another head serves, and serve."""
    keep_private()
    config = msgspec.convert(json.loads(sys.stdin.readline()), HeadConfig)
    LOG.keep(config.log, "head")
    sessions.own(config.session, os.getpid())
    code, has_lost_store = 1, False
    try:
        if config.standbys:
            config = wait_for_turn(config)
        has_lost_store = _serve(config)
        code = int(has_lost_store)
    except SystemExit:
        code = 0
    except BaseException as error:
        log_defect(error)
        with contextlib.suppress(OSError):
            announce(config.session, config.ready_fd, Failure(str(error)))
    if has_lost_store and config.standbys:
        stand_by_again(config)
    sessions.remove(config.session)
    os._exit(code)


def _serve(config: HeadConfig) -> bool:
    """Fork the gateway and serve. Returns whether another head has the store now."""
    starter = GatewayStarter(
        GatewayConfig(
            prefixes=(CONTROL[:PREFIX_BYTES],),
            token_file=config.token_file,
            host=config.host,
            port=config.port,
            insecure=config.insecure,
            identity=identity_path(config),
        ),
        config.session,
    )
    gateway = starter.start()
    name_process(HEAD_NAME)
    try:
        head = HeadProcess(config, gateway, starter)
    except LOST_TO_ANOTHER:
        if not config.standbys:
            raise
        has_lost_store = True  # two standbys took over in the same moment
    else:
        head.serve()
        has_lost_store = head.has_lost_store
    if has_lost_store:
        starter.end()
    return has_lost_store


if __name__ == "__main__":
    main()
