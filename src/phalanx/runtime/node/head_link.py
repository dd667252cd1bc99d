"""A node's connection to its head. Reports about the connection go to the process that started the
node.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from phalanx.runtime.daemon_registry import register
from phalanx.runtime.daemons.daemon_files import Announcement, Failure, announce
from phalanx.runtime.daemons.local import split_address
from phalanx.runtime.node.config import MemberConfig, NodeConfig
from phalanx.runtime.os import kept_records
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.session import started_at
from phalanx.runtime.os.system import say


class HeadLink:
    """The link of a node in a cluster to its head."""

    def __init__(
        self,
        config: NodeConfig,
        member: MemberConfig,
        dial_head: Callable[[tuple[str, int]], Connection],
        stop: Callable[[], None],
        remember: Callable[[], None],
    ) -> None:
        """`dial_head` begins a connection to the head at an address, and may raise OSError. `stop`
        ends the node. `remember` is called when the node's announcement has been written: see
        `SessionKeeper.remember`.
        """
        self._config = config
        self._member = member
        self._dial_head = dial_head
        self._stop = stop
        self._remember = remember
        self._is_announced = False
        self._ready_fd = config.ready_fd
        self._address = ""
        """HOST:PORT of the head that the node has joined."""

    def dial_head(self, address: str) -> Connection | None:
        """Begin a connection to the head at this address. Returns None if that is not possible
        now.
        """
        try:
            return self._dial_head(split_address(address))
        except OSError:
            return None

    def joined(self, cluster: str, address: str, standbys: tuple[str, ...]) -> None:
        """Announce the cluster of the node, with the addresses of its head and of the standbys."""
        self._is_announced = self._is_announced and address == self._address
        self._address = address
        if self._config.keeps_commands:
            kept_records.settle(self._config.session.kept)
        self._announce(
            Announcement(
                kind="node",
                pid=os.getpid(),
                started=started_at(os.getpid()) or "",
                address=address,
                standbys=standbys,
                token_file=self._member.token_file,
                node_id=self._config.node_id,
                name=self._config.node_name or socket.gethostname(),
                cluster=cluster,
                is_private=self._config.is_private,
            )
        )

    def note(self, text: str) -> None:
        """Write a line to the node's log."""
        say(text)

    def end(self, reason: str, is_about_token: bool) -> None:
        """Announce why the node must end, and end the node. `is_about_token`: whether the reason is
        a wrong or missing token.
        """
        self._announce(Failure(reason, is_about_token))
        say(reason)
        self._stop()

    def _announce(self, what: Announcement | Failure) -> None:
        if not self._is_announced:
            self._is_announced = True
            if isinstance(what, Announcement):
                register(self._config.session, what)
            announce(self._config.session, self._ready_fd, what)
            self._remember()
            self._ready_fd = -1  # it is closed, and its number may belong to a socket by now
