"""The classes that a node needs only if it belongs to a larger cluster: its links to a gateway, to
a head in another process, and to other nodes.
"""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.model.ids import CONTROL, PREFIX_BYTES, node_prefix
from phalanx.node.cluster_node import cluster_node
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.membership import ClusterMembership, MembershipOptions
from phalanx.node.node import Node
from phalanx.observe.metrics.catalogue import NODE
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.gateway_messages import (
    AddressBook,
    AuthFailed,
    Listening,
    Pull,
    Pulled,
    ReleaseFile,
    Unable,
    decode_body,
)
from phalanx.runtime.daemons.local import split_address
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.gate import request_dial
from phalanx.runtime.gateway.starting import GatewayStarter
from phalanx.runtime.node.config import MemberConfig, NodeConfig
from phalanx.runtime.node.head_link import HeadLink
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.connection_loop import ConnectionLoop
from phalanx.runtime.os.helpers import WAS_KILLED, Deaths
from phalanx.runtime.os.own_time import own_time

LEAVE_S = 1.0
"""Seconds for which an ending node waits until its last message to the head is sent."""
_HEAD = CONTROL[:PREFIX_BYTES].hex()
"""The head's name among the addresses of nodes."""


def ended_with(part: str, how: str) -> str:
    """Return why a node ends if one of its parts has ended and cannot be started again. `how`: a
    clause that says how the part has ended.
    """
    return f"its {part} {how}" + ", most likely by something that ran there" * (how == WAS_KILLED)


class ClusterReach:
    """Uses the gateway for connections, addresses, and transfers of objects."""

    def __init__(self, config: NodeConfig, member: MemberConfig, loop: ConnectionLoop) -> None:
        """Start the gateway. It reports later where it listens, or why it cannot listen."""
        self._session = config.session
        self._loop = loop
        gateway = GatewayConfig(
            prefixes=(node_prefix(config.node_id),),
            token_file=member.token_file,
            host=member.host,
            port=member.port,
            insecure=member.insecure,
        )
        self._gateway = GatewayStarter(gateway, config.session)
        self._deaths = Deaths(own_time)
        self._book = {_HEAD: split_address(config.addresses[0])}
        self._pulls: dict[str, None] = {}
        self._use(self._gateway.start())

    def _use(self, channel: socket.socket) -> None:
        self.channel = Connection(channel, decode=decode_body)
        self._loop.watch(self.channel)
        # Sent before any process can request a connection.
        self.channel.send(AddressBook(self._book))

    @property
    def gateway_pid(self) -> int:
        """The pid of the gateway."""
        return self._gateway.pid

    def start_again(self, port: int) -> list[Pulled] | None:
        """Start another gateway, because the last one has ended. Returns the transfers that have
        failed.

        Returns None if no other gateway can be started.
        """
        self._deaths.add()
        self._gateway.note_end()
        if self._deaths.are_too_many():
            return None
        try:
            self._use(self._gateway.start_again(port))
        except OSError:
            return None
        pulls, self._pulls = self._pulls, {}
        reason = f"the gateway {self.how_lost}"
        return [Pulled(name, False, reason, 0, 0.0, may_pass=True) for name in pulls]

    @property
    def how_lost(self) -> str:
        """A clause that says how the last gateway has ended."""
        return self._gateway.how_lost

    def dial(self, process: bytes) -> Connection:
        """Begin a connection to a process of another node, or to the head.

        Raises OSError when the gateway has ended.
        """
        connection = Connection(request_dial(self._session, process), is_dialling=True)
        self._loop.watch(connection)
        return connection

    def dial_head(self, address: tuple[str, int]) -> Connection:
        """Begin a connection to the head at this address. Raises OSError."""
        if self._book[_HEAD] != address:
            self._book[_HEAD] = address
            self.channel.send(AddressBook({_HEAD: address}))
        return self.dial(CONTROL)

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Tell the gateway the addresses of other nodes, which are in these rows."""
        book = {row.prefix.hex(): (row.host, row.port) for row in rows}
        for name, address in book.items():
            if address[1]:
                self._book[name] = address
            else:
                self._book.pop(name, None)
        if book:  # sent at once: a process that learns of the node may want a connection to it next
            self.channel.send(AddressBook(book))

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """Order the gateway to copy an object to this node."""
        self._pulls[name] = None
        self.channel.post(Pull(name, size, [node.hex() for node in nodes], on_disk, spare))

    def pulled(self, name: str) -> None:
        """Note that a transfer has ended."""
        self._pulls.pop(name, None)

    def release_file(self, name: str) -> None:
        """Tell the gateway that a copy was deleted on this node."""
        self.channel.post(ReleaseFile(name))


class ClusterPart:
    """A node's machines in a cluster. Handles the gateway's messages to them."""

    def __init__(
        self,
        config: NodeConfig,
        member: MemberConfig,
        loop: ConnectionLoop,
        reach: ClusterReach,
        setup: NodeSetup,
        effects: NodeEffects,
        remember: Callable[[], None],
    ) -> None:
        """`remember`: see `HeadLink`."""
        self._head = HeadLink(config, member, reach.dial_head, loop.stop, remember)
        self._reach = reach
        self._listens: tuple[str, int] | None = None
        """The address on which the gateway listens; None until that is known."""
        self._failure = ""
        """Why the node must end although nobody asked for that."""
        self.node: Node[ClusterMembership] = cluster_node(
            setup,
            effects,
            MembershipOptions(
                heads=tuple(config.addresses),
                hostname=socket.gethostname(),
                name=config.node_name,
                machine=config.machine,
                is_system=bool(config.launch),
                patience_s=member.patience_s,
                comes_back=member.comes_back,
                formers=tuple(member.formers),
                keeps_commands=config.keeps_commands,
            ),
            self._head,
            config.spilling,
            random.Random(secrets.randbits(64)),
        )

    @property
    def is_stale(self) -> bool:
        """Whether the head has declared this node dead, so that it must come back as another
        node.
        """
        return self.node.membership.is_stale

    @property
    def heads(self) -> tuple[str, ...]:
        """The addresses at which the cluster's head can be, as HOST:PORT."""
        return self.node.membership.heads

    def leave(self, how_fork_server_ended: str) -> None:
        """Tell the head that the node leaves. `how_fork_server_ended`: a clause; empty unless the
        node leaves because it has no fork server any more.
        """
        how = how_fork_server_ended
        failure = ended_with("fork server", how) if how else self._failure
        head = self.node.membership.leave(failure)
        if isinstance(head, Connection):
            head.drain_all(LEAVE_S)

    def is_gateway(self, connection: Connection) -> bool:
        """Whether this connection is the channel to the gateway."""
        return connection is self._reach.channel

    @property
    def gateway_pid(self) -> int:
        """The pid of the gateway."""
        return self._reach.gateway_pid

    def gateway_lost(self) -> None:
        """Start another gateway. If none can be started, the node ends."""
        again = None if self._listens is None else self._reach.start_again(self._listens[1])
        if again is None:
            self._failure = ended_with("gateway", self._reach.how_lost)
            self._head.end(self._failure, is_about_token=False)
            return
        self.node.killed_parts.killed(
            "gateway", "connections through it are made again", how=self._reach.how_lost
        )
        for failed in again:
            self.node.store.pulled(failed)

    def on_gateway(self, message: Any) -> None:
        """Handle a message of the gateway."""
        match message:
            case Listening():
                if self._listens is None:
                    self.node.membership.join(message.host, message.port)
                self._listens = (message.host, message.port)
            case Unable():
                self._head.end(message.reason, message.is_about_token)
            case Pulled():
                self._reach.pulled(message.name)
                self.node.store.pulled(message)
            case AuthFailed():
                meter = self.node.counts.meter
                meter.add("phalanx_auth_failures_total", NODE, by=message.count)
