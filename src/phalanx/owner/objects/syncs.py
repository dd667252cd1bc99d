"""Waits until other processes have handled all messages that were sent to them so far."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from phalanx.owner.peers.connections import Peers
from phalanx.owner.transport import Connection, Outbox
from phalanx.protocol.messages import Sync


class Syncs:
    """The Sync messages that are not answered yet."""

    def __init__(self, peers: Peers, outbox: Outbox) -> None:
        self._peers = peers
        self._outbox = outbox
        self._tokens = itertools.count(1)
        self._open: dict[int, tuple[bytes, Callable[[], None]]] = {}

    def after(self, processes: set[bytes], action: Callable[[], None]) -> None:
        """Run `action` when these processes have handled everything that was sent to them so far.

        Processes that are gone are not waited for.
        """
        left = [len(processes)]

        def answered() -> None:
            left[0] -= 1
            if not left[0]:
                action()

        for process in sorted(processes):
            connection = self._peers.peer(process)
            if connection is None:
                answered()
                continue
            token = next(self._tokens)
            self._open[token] = (process, answered)
            self._outbox.post(connection, Sync(token))

    def answered(self, token: int) -> None:
        """Handle the answer of a process."""
        entry = self._open.pop(token, None)
        if entry is not None:
            _, on_answer = entry
            on_answer()

    def are_open(self, process: bytes) -> bool:
        """Whether a Sync to this process has not been answered yet."""
        return any(asked == process for asked, _ in self._open.values())

    def send_again(self, connection: Connection) -> None:
        """Send again the messages that the other process did not answer over the last
        connection.
        """
        for token, (process, _) in self._open.items():
            if process == connection.peer:
                connection.post(Sync(token))

    def process_gone(self, process: bytes) -> None:
        """Count a process that has ended as having answered, because it will never answer."""
        for token in [t for t, (asked, _) in self._open.items() if asked == process]:
            self.answered(token)
