"""Reads the usage of nodes over time, and their processes, from the nodes themselves."""

from __future__ import annotations

import msgspec

from phalanx.errors import StateQueryError
from phalanx.head.actors.table import ActorTable
from phalanx.head.clock import Clock
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.model.node_use import NodeUse, ProcessOfNode
from phalanx.observe.state.gathering import Gathering
from phalanx.protocol.report_messages import NodeUseRead, ReadNodeUse
from phalanx.protocol.requests.node_use import GetNodeUse
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later

PATIENCE_S = 3.0
"""Seconds for which a node may take to answer."""
MAX_READING = 256
"""The largest number of questions to nodes at the same time. Further requests are refused."""


class NodeUseReading:
    """Answers GetNodeUse requests."""

    def __init__(
        self, outbox: Outbox, clock: Clock, nodes: NodeDirectory, actors: ActorTable
    ) -> None:
        self._actors = actors
        self._outbox = outbox
        self._clock = clock
        self._nodes = nodes
        self._rounds: Gathering[NodeUse] = Gathering()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [GetNodeUse.handled_by(self.read)]

    def read(self, asker: Asker[NodeUse], request: GetNodeUse) -> Later:
        """Answer after the node has answered."""
        record = self._nodes.get(request.node)
        if record is None:
            raise ValueError(f"node {request.node!r} does not exist")
        prefix = record.prefix
        name = record.hostname
        if not self._outbox.is_connected(prefix):
            raise StateQueryError(f"node {name} is not connected.")
        if len(self._rounds) >= MAX_READING:
            raise StateQueryError(f"{MAX_READING} nodes are being asked: try again a little later.")

        def finish(answers: dict[bytes, NodeUse], silent: list[bytes]) -> None:
            if prefix in answers:
                asker.reply(self._named(answers[prefix]))
            else:
                asker.fail(StateQueryError(f"node {name} does not answer."))

        self._rounds.begin(
            [prefix],
            self._clock.now() + PATIENCE_S,
            lambda number: self._outbox.send(prefix, ReadNodeUse(number, request.span_s)),
            finish,
        )
        return LATER

    def _named(self, use: NodeUse) -> NodeUse:
        """Return a node's answer with the classes of its actors, which only the head knows."""
        return NodeUse(numbers=use.numbers, processes=[self._with_class(p) for p in use.processes])

    def _with_class(self, process: ProcessOfNode) -> ProcessOfNode:
        record = self._actors.get(bytes.fromhex(process.actor)) if process.actor else None
        if record is None:
            return process
        name = f"{record.class_name} {record.name}".strip()
        return msgspec.structs.replace(process, name=name)

    def answered(self, prefix: bytes, message: NodeUseRead) -> None:
        """Handle a node's answer."""
        self._rounds.answered(prefix, message.number, message.use)

    def node_gone(self, prefix: bytes) -> None:
        """Stop waiting for a node that will not answer."""
        self._rounds.on_process_end(prefix)

    def tick(self, now: float) -> None:
        """Answer the requests whose time is up."""
        self._rounds.tick(now)
