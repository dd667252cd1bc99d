"""A node as a member of a cluster: its gateway, its connection to the head, its heartbeats."""

from __future__ import annotations

import os
import random
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from phalanx.engines.embedded.connection import Connection
from phalanx.engines.embedded.daemon_files import Announcement, Failure, announce
from phalanx.engines.embedded.gateway.config import GatewayConfig
from phalanx.engines.embedded.gateway.gate import request_dial
from phalanx.engines.embedded.gateway.starting import start_gateway
from phalanx.engines.embedded.node.config import MemberConfig
from phalanx.engines.embedded.node.membership import report_of, row_of
from phalanx.engines.embedded.session import started_at
from phalanx.errors import PhalanxError
from phalanx.head.nodes import REPORT_EVERY_S
from phalanx.model.ids import CONTROL, PREFIX_BYTES, node_process_id
from phalanx.node.control_link import RemoteControl, ask
from phalanx.node.spilling import Spilling
from phalanx.protocol import gateway_messages
from phalanx.protocol.cluster_messages import (
    Acked,
    Expelled,
    ForwardedReply,
    Join,
    Joined,
    Leave,
    NodeReport,
    View,
    ViewRow,
)
from phalanx.protocol.gateway_messages import AddressBook, LetGo, Listening, Pull, Pulled, Unable
from phalanx.protocol.handshake import Status
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.requests.cluster import GetViewChanges, ViewChanges
from phalanx.scheduling.cluster_nodes import ClusterNodes

if TYPE_CHECKING:
    from phalanx.engines.embedded.node.shell import NodeShell
    from phalanx.node.group_places import GroupPlaces

REPORT_AT_MOST_EVERY_S = 0.1
VIEW_AT_MOST_EVERY_S = 0.1
VIEW_OLD_AFTER_S = 0.5
"""Nothing is decided on an older view while the head can be asked."""
_RETRY_S = 0.2


def spilling_of(shell: NodeShell, places: GroupPlaces) -> Spilling:
    """What is asked of the other nodes of a cluster."""
    return Spilling(
        shell.config.node_id,
        ClusterNodes(),
        shell,
        random.Random(secrets.randbits(64)),
        shell.config.spilling,
        lambda owner: owner[:PREFIX_BYTES] == shell.prefix,
        places.nodes_of,
    )


class Member:
    """The head is another process; the gateway is the way to it, and to other nodes."""

    def __init__(self, shell: NodeShell, config: MemberConfig) -> None:
        self._shell = shell
        self._config = config
        self.link = RemoteControl()
        self._gateway: Connection | None = None
        self._head: Connection | None = None
        self._address = ("", 0)
        self._silent_since = time.monotonic()
        self._dial_at = 0.0
        self._reported_at = 0.0
        self._viewed_at = 0.0
        self._is_viewing = False
        self._last_report: NodeReport | None = None
        self._epoch = 0
        self.is_stale = ""
        self._is_announced = False
        self.trouble = ""
        """Why the head is not there, as it was noted last."""

    @property
    def is_blind(self) -> bool:
        """See Membership."""
        return self.link.connection is None

    # ---- the gateway -------------------------------------------------------------------------

    def start(self) -> None:
        """See Membership."""
        config = GatewayConfig(
            prefixes=(self._shell.prefix,),
            token_file=self._config.token_file,
            host=self._config.host,
            port=self._config.port,
            insecure=self._config.insecure,
        )
        gateway = start_gateway(config, self._shell.session)
        self._gateway = Connection(gateway, decode=gateway_messages.decode_body)
        self._shell.loop.watch(self._gateway)
        book = AddressBook({CONTROL[:PREFIX_BYTES].hex(): self._config.head})
        self._gateway.send(book)  # before anybody can ask for a dial

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """See Membership."""
        book = {r.prefix.hex(): (r.host, r.port) for r in rows if r.prefix != self._shell.prefix}
        if book and self._gateway is not None:
            # At once: whoever learns of the node next may ask the gate for it.
            self._gateway.send(AddressBook(book))

    def pull(
        self, name: str, size: int, nodes: list[bytes], on_disk: bool, spare: str = ""
    ) -> None:
        """See Membership."""
        assert self._gateway is not None
        command = Pull(name, size, [n.hex() for n in nodes], on_disk, spare)
        self._gateway.post(command)

    def let_go(self, name: str) -> None:
        """See Membership."""
        assert self._gateway is not None
        self._gateway.post(LetGo(name))

    def is_control(self, connection: Connection) -> bool:
        """See Membership."""
        return connection in (self._gateway, self._head)

    def is_lost(self, connection: Connection) -> bool:
        """See Membership."""
        if connection is self._gateway:
            self._refused("The node's gateway has ended.")
            return True
        if connection is not self._head:
            return False
        self._head = self.link.connection = None
        self._dial_at = time.monotonic() + _RETRY_S
        self._is_viewing = False
        why = (connection.refusal or "the connection ended").rstrip(".")
        where = self._shell.config.address
        if not self._is_announced:
            is_about_token = connection.refusal_status == Status.WRONG_TOKEN
            self._refused(f"The head at {where} cannot be reached: {why}.", is_about_token)
        elif why != self.trouble:
            self.trouble = why
            self._shell.note(f"The head at {where} is not there: {why}. It is tried again.")
        return True

    def on_message(self, connection: Connection, message: Any) -> None:
        """See Membership."""
        if connection is self._gateway:
            self._from_gateway(message)
            return
        self._silent_since = time.monotonic()
        match message:
            case Acked():
                self.link.acked(message)
            case Joined():
                self._joined(message)
            case Expelled():
                self._expelled(message)
            case ForwardedReply():
                self.link.replied(message)
            case _:
                self._shell.on_control(message)

    def _from_gateway(self, message: Any) -> None:
        match message:
            case Listening():
                self._address = (message.host, message.port)
                self._dial()
            case Unable():
                self._refused(message.reason, message.is_about_token)
            case Pulled():
                if message.ok and message.seconds > 0:
                    self._shell.bandwidth = self._shell.bandwidth.with_sample(
                        message.size / message.seconds
                    )
                self._shell.store.pulled(message)

    # ---- the head ----------------------------------------------------------------------------

    def _dial(self) -> None:
        try:
            sock = request_dial(self._shell.session, CONTROL)
        except OSError:
            self._dial_at = time.monotonic() + _RETRY_S
            return
        head = Connection(sock, is_dialling=True)
        head.peer, head.tag = CONTROL, "head"
        self._head = head
        me = node_process_id(self._shell.prefix)
        head.post(Hello(PROTOCOL_VERSION, me, "node", 0))
        head.post(self._join_request())
        self._shell.loop.watch(head)

    def _join_request(self) -> Join:
        row = self.own_row()
        row.host, row.port = self._address
        shell = self._shell
        inventory = shell.bundles.inventory()
        return Join(row, socket.gethostname(), self._epoch, shell.actors.here(), inventory)

    def _expelled(self, message: Expelled) -> None:
        if not self.is_stale:
            where = self._shell.config.address
            self._refused(f"The head at {where} refuses this node: {message.reason}")
            self.is_stale = message.reason if message.is_stale else ""

    def _joined(self, message: Joined) -> None:
        if self.is_stale:
            return
        assert self._head is not None
        self._epoch = message.epoch
        self._shell.spilling.use(message.placement)
        self.link.connected(self._head)
        self._shell.groups.joined()
        self._last_report = None
        if self.trouble:
            self.trouble = ""
            self._shell.note("The head is there again.")
        self._announce(
            Announcement(
                kind="node",
                pid=os.getpid(),
                started=started_at(os.getpid()) or "",
                address=self._shell.config.address,
                token_file=self._config.token_file,
                node_id=self._shell.config.node_id,
                is_private=self._shell.config.is_private,
            )
        )

    def _refused(self, reason: str, is_about_token: bool = False) -> None:
        """There is no place for this node in that cluster."""
        self._announce(Failure(reason, is_about_token))
        self._shell.note(reason)
        self._shell.stop()

    def _announce(self, what: Announcement | Failure) -> None:
        if not self._is_announced:
            self._is_announced = True
            announce(self._shell.session, self._shell.config.ready_fd, what)

    def stop(self) -> None:
        """See Membership."""
        if self._head is not None and not self.is_stale:
            self._head.post(Leave("it was told to stop"))
            self._head.drain_all(1.0)

    def tick(self, now: float) -> None:
        """See Membership."""
        if self._head is None:
            if now - self._silent_since > self._config.patience_s:
                self._refused(f"No head was there for {self._config.patience_s:g} s.")
            elif self._address[1] and now >= self._dial_at:
                self._dial()
            return
        if self.link.connection is None:
            return
        if now - self._reported_at >= REPORT_AT_MOST_EVERY_S:
            report = report_of(self._shell)
            if report != self._last_report or now - self._reported_at >= REPORT_EVERY_S:
                self._send_report(report)
        self._view(now)

    def _view(self, now: float) -> None:
        """While something waits, keep what is known of the other nodes fresh."""
        if self._shell.leases.waiting and now - self._viewed_at >= VIEW_AT_MOST_EVERY_S:
            self._ask_view(now)

    def awaits_view(self, now: float) -> bool:
        """See Membership."""
        if self.link.connection is not None and now - self._viewed_at >= VIEW_OLD_AFTER_S:
            self._ask_view(now)
        return self._is_viewing

    def _ask_view(self, now: float) -> None:
        if self._is_viewing:
            return
        self._is_viewing, self._viewed_at = True, now

        def answered(answer: Callable[[], ViewChanges]) -> None:
            self._is_viewing = False
            try:
                changes = answer()
            except PhalanxError:
                return
            self._shell.others.version = changes.version
            self._shell.others.view(View(changes.rows))

        me = node_process_id(self._shell.prefix)
        ask(self.link, me, GetViewChanges(self._shell.others.version), answered)

    def round(self) -> None:
        """See Membership."""

    def report_soon(self) -> None:
        """See Membership. At once: before what else is said of it."""
        self.report_now()

    def report_now(self) -> None:
        """See Membership."""
        self._send_report(report_of(self._shell))

    def _send_report(self, report: NodeReport) -> None:
        self._last_report = report
        self._reported_at = time.monotonic()
        self.link.report(report)

    def own_row(self) -> ViewRow:
        """See Membership."""
        return row_of(self._shell)
