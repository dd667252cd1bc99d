"""A node's connection to its head, and reports about that connection to the process that started
the node.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from phalanx.model.ids import CONTROL
from phalanx.runtime.daemon_registry import register
from phalanx.runtime.daemons.daemon_files import Announcement, Failure, announce
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
        dial: Callable[[bytes], Connection],
        stop: Callable[[], None],
    ) -> None:
        """`dial` begins a connection to a process, and may raise OSError. `stop` ends the node."""
        self._config = config
        self._member = member
        self._dial = dial
        self._stop = stop
        self._is_announced = False

    def dial_head(self) -> Connection | None:
        """Begin a connection to the head. Returns None if that is not possible now."""
        try:
            return self._dial(CONTROL)
        except OSError:
            return None

    def joined(self, cluster: str) -> None:
        """Announce that the node belongs to the cluster of this name."""
        if self._config.keeps_commands:
            kept_records.settle(self._config.session.kept)
        self._announce(
            Announcement(
                kind="node",
                pid=os.getpid(),
                started=started_at(os.getpid()) or "",
                address=self._config.address,
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
        """Announce why the node must end, and end the node."""
        self._announce(Failure(reason, is_about_token))
        say(reason)
        self._stop()

    def _announce(self, what: Announcement | Failure) -> None:
        if not self._is_announced:
            self._is_announced = True
            if isinstance(what, Announcement):
                register(self._config.session, what)
            announce(self._config.session, self._config.ready_fd, what)
