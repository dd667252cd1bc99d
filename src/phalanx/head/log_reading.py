"""Reads parts of the logs of daemons and workers. The nodes of these processes read the files."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import StateQueryError
from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.observe.log_lines import LogPiece
from phalanx.observe.state.gathering import Gathering
from phalanx.protocol.report_messages import NodeLogRead, ReadNodeLog
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later

PART_BYTES = 1 << 20
PATIENCE_S = 5.0
MAX_READING = 256
"""The largest number of parts that are read at the same time. If this number is reached, further
requests are refused.
"""
ReadOwn = Callable[[int, int, int], LogPiece]
"""Reads a part of the head's own log, by (file, offset, number of bytes)."""


class LogReading:
    """Answers ReadProcessLog requests."""

    def __init__(
        self, outbox: Outbox, clock: Clock, nodes: NodeDirectory, read_own: ReadOwn | None
    ) -> None:
        """`read_own`: None if the head has no log of its own, because it writes to the log of its
        only node.
        """
        self._outbox = outbox
        self._clock = clock
        self._nodes = nodes
        self._read_own = read_own
        self._rounds: Gathering[LogPiece] = Gathering()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [ReadProcessLog.handled_by(self.read)]

    def read(self, asker: Asker[LogPiece], request: ReadProcessLog) -> LogPiece | Later:
        """Answer from the head's own log, or after the node has read the log."""
        file, offset = request.file, max(request.offset, 0)
        if not request.node and not request.worker and self._read_own is not None:
            return self._read_own(file, offset, PART_BYTES)
        if len(self._rounds) >= MAX_READING:
            raise StateQueryError(f"{MAX_READING} logs are being read: try again a little later.")
        prefix = self._prefix_of(request.node)

        def finish(answers: dict[bytes, LogPiece], silent: list[bytes]) -> None:
            if prefix in answers:
                asker.reply(answers[prefix])
            else:
                asker.fail(StateQueryError(f"node {request.node} does not answer."))

        self._rounds.begin(
            [prefix],
            self._clock.now() + PATIENCE_S,
            lambda number: self._outbox.send(
                prefix, ReadNodeLog(number, request.worker, file, offset, PART_BYTES)
            ),
            finish,
        )
        return LATER

    def _prefix_of(self, node_id: str) -> bytes:
        if not node_id and self._outbox.connected:
            return next(iter(self._outbox.connected))  # the only node of the cluster
        record = self._nodes.get(node_id)
        if record is None:
            raise ValueError(f"node {node_id!r} does not exist")
        if not self._outbox.is_connected(record.prefix):
            raise StateQueryError(f"node {node_id} ({record.hostname}) is not connected.")
        return record.prefix

    def answered(self, prefix: bytes, message: NodeLogRead) -> None:
        """Handle a node's answer."""
        self._rounds.answered(prefix, message.number, message.piece)

    def node_gone(self, prefix: bytes) -> None:
        """Stop waiting for a node that will not answer."""
        self._rounds.on_process_end(prefix)

    def tick(self, now: float) -> None:
        """Answer the requests whose time is up."""
        self._rounds.tick(now)
