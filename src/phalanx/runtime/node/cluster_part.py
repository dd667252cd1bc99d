"""The parts that a node has only in a cluster: a gateway, a head elsewhere, other nodes."""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Iterable, Sequence
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
    LetGo,
    Listening,
    Pull,
    Pulled,
    Unable,
    decode_body,
)
from phalanx.runtime.gateway.config import GatewayConfig
from phalanx.runtime.gateway.gate import request_dial
from phalanx.runtime.gateway.starting import start_gateway
from phalanx.runtime.node.config import MemberConfig, NodeConfig
from phalanx.runtime.node.head_link import HeadLink
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.connection_loop import ConnectionLoop

LEAVE_S = 1.0
"""Seconds that an ending node waits for its goodbye to be sent."""
KILLED = "its {} was killed, most likely by something that ran there"
"""The reason of a node that ends because a part of it was killed."""


class ClusterReach:
    """The gateway as the node uses it: dialling, addresses, and transfers of objects."""

    def __init__(self, config: NodeConfig, member: MemberConfig, loop: ConnectionLoop) -> None:
        """Start the gateway. It reports where it listens, or why it cannot."""
        self._session = config.session
        self._loop = loop
        gateway = GatewayConfig(
            prefixes=(node_prefix(config.node_id),),
            token_file=member.token_file,
            host=member.host,
            port=member.port,
            insecure=member.insecure,
        )
        channel = start_gateway(gateway, config.session)
        self.channel = Connection(channel, decode=decode_body)
        loop.watch(self.channel)
        # Sent before any process can ask for a connection.
        self.channel.send(AddressBook({CONTROL[:PREFIX_BYTES].hex(): member.head}))

    def dial(self, process: bytes) -> Connection:
        """Begin a connection to a process of another node, or to the head.

        Raises OSError when the gateway has ended.
        """
        connection = Connection(request_dial(self._session, process), is_dialling=True)
        self._loop.watch(connection)
        return connection

    def know_addresses(self, rows: Iterable[ViewRow]) -> None:
        """Give the gateway the addresses of other nodes in these rows."""
        book = {row.prefix.hex(): (row.host, row.port) for row in rows}
        if book:  # at once: a process that learns of the node may want a connection to it next
            self.channel.send(AddressBook(book))

    def pull(self, name: str, size: int, nodes: Sequence[bytes], on_disk: bool, spare: str) -> None:
        """Let the gateway copy an object here."""
        self.channel.post(Pull(name, size, [node.hex() for node in nodes], on_disk, spare))

    def let_go(self, name: str) -> None:
        """Tell the gateway that a copy was deleted here."""
        self.channel.post(LetGo(name))


class ClusterPart:
    """The node's machines in a cluster, and the gateway's messages to them."""

    def __init__(
        self,
        config: NodeConfig,
        member: MemberConfig,
        loop: ConnectionLoop,
        reach: ClusterReach,
        setup: NodeSetup,
        effects: NodeEffects,
    ) -> None:
        self._head = HeadLink(config, member, reach.dial, loop.stop)
        self._channel = reach.channel
        self._failure = ""
        """Why the node must end when it was not asked to."""
        self.node: Node[ClusterMembership] = cluster_node(
            setup,
            effects,
            MembershipOptions(
                head=config.address,
                hostname=socket.gethostname(),
                name=config.node_name,
                patience_s=member.patience_s,
                comes_back=member.comes_back,
            ),
            self._head,
            config.spilling,
            random.Random(secrets.randbits(64)),
        )

    @property
    def is_stale(self) -> bool:
        """Whether the node must come back as a new one."""
        return self.node.membership.is_stale

    def leave(self, has_lost_fork_server: bool) -> None:
        """Say goodbye to the head."""
        failure = KILLED.format("fork server") if has_lost_fork_server else self._failure
        head = self.node.membership.leave(failure)
        if isinstance(head, Connection):
            head.drain_all(LEAVE_S)

    def is_gateway(self, connection: Connection) -> bool:
        """Whether this is the channel to the gateway."""
        return connection is self._channel

    def gateway_lost(self) -> None:
        """End the node, as its gateway has ended."""
        self._failure = KILLED.format("gateway")
        self._head.end(self._failure, is_about_token=False)

    def on_gateway(self, message: Any) -> None:
        """Handle a message of the gateway."""
        match message:
            case Listening():
                self.node.membership.join(message.host, message.port)
            case Unable():
                self._head.end(message.reason, message.is_about_token)
            case Pulled():
                self.node.store.pulled(message)
            case AuthFailed():
                meter = self.node.counts.meter
                meter.add("phalanx_auth_failures_total", NODE, by=message.count)
