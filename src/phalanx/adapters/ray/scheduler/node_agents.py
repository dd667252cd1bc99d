"""The table of Ray's nodes and of the agents on them, for the scheduler's thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from phalanx.adapters.ray.scheduler.node_agent import AgentSetup
from phalanx.adapters.ray.scheduler.options import SchedulerOptions
from phalanx.adapters.ray.scheduler.ray_groups import NODE_LABEL
from phalanx.adapters.ray.scheduler.reservation import Amounts
from phalanx.adapters.ray.scheduler.view import Naming, RayNode, merged
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.protocol.frames import encode_body
from phalanx.protocol.membership_messages import Acked
from phalanx.protocol.report_messages import NodeReport
from phalanx.runtime.os.own_time import own_time

RESTART_S = 5.0
"""Seconds after which an agent that was started but has not joined is started again."""
ACKS_WAIT_S = 0.2
"""The most seconds for which acknowledgements wait for another message, so that one call of Ray
carries both. A call of Ray costs both sides far more than its content.
"""
SILENT_S = 2.0
"""Seconds without a message after which the scheduler checks whether an agent is alive, and
otherwise restarts it.
"""


class ConnectedNodes(Protocol):
    """The part of the head that knows which nodes are connected."""

    def is_connected(self, prefix: bytes) -> bool:
        """Whether a node is connected now."""
        ...

    def on_lost(self, prefix: bytes) -> None:
        """Note that a node cannot be reached for now."""
        ...

    def free_changed(self, prefix: bytes, report: NodeReport, heard: float) -> None:
        """Update the amounts available on a node. `heard`: the time of its last message."""
        ...


class NodeAgents:
    """The agents that have joined, the messages to them, and Ray's data about their nodes."""

    def __init__(
        self,
        nodes: NodeDirectory,
        connected: ConnectedNodes,
        options: SchedulerOptions,
        naming: Naming,
        start: Callable[[AgentSetup], None],
        call: Callable[[Callable[[], None]], None],
    ) -> None:
        """`start`: a function that starts an agent. `call`: a function that runs another function
        in this thread; any thread may use `call`.
        """
        self._nodes = nodes
        self._connected = connected
        self._options = options
        self._naming = naming
        self._start = start
        self._call = call
        self._handles: dict[bytes, Any] = {}
        self._outbox: dict[bytes, list[Any]] = {}
        self._acks: dict[bytes, tuple[float, list[Acked]]] = {}
        """For each agent: the acknowledgements that wait for other messages, and the time at which
        they are sent alone.
        """
        self._living: dict[str, RayNode] = {}
        self._free: dict[str, Amounts] = {}
        self._reports: dict[bytes, NodeReport] = {}
        """Each agent's last report."""
        self._heard: dict[bytes, float] = {}
        """The time of each agent's last message."""
        self._started: dict[str, float] = {}
        """For each of Ray's nodes whose agent has not joined: the time at which an agent was last
        started there.
        """

    # ---- messages ----------------------------------------------------------------------------

    def post(self, prefix: bytes, message: Any) -> None:
        """Queue a message for an agent, to be sent with this round's other messages."""
        if isinstance(message, Acked):
            due = own_time() + ACKS_WAIT_S
            self._acks.setdefault(prefix, (due, []))[1].append(message)
        else:
            self._outbox.setdefault(prefix, []).append(message)

    def flush(self, epoch: int) -> None:
        """Send the queued messages."""
        outbox, self._outbox = self._outbox, {}
        now = own_time()
        for prefix in [p for p, (due, _) in self._acks.items() if p in outbox or now >= due]:
            outbox.setdefault(prefix, []).extend(self._acks.pop(prefix)[1])
        for prefix, messages in outbox.items():
            agent = self._handles.get(prefix)
            if agent is not None:
                sent = agent.receive.remote(epoch, encode_body(messages)).future()
                sent.add_done_callback(partial(self._sent, prefix, agent))

    def _sent(self, prefix: bytes, agent: Any, sent: Any) -> None:
        """Note whether a batch arrived. This method runs in a thread of Ray."""
        if sent.exception() is not None:
            self._call(lambda: self._lost(prefix, agent))

    def _lost(self, prefix: bytes, agent: Any) -> None:
        """Note that an agent could not be reached. If the agent is alive, it joins again and gets
        all messages again.
        """
        if self._handles.get(prefix) is agent:
            del self._handles[prefix]
            self._connected.on_lost(prefix)

    def admit(self, prefix: bytes, handle: Any) -> bool:
        """Store the handle of a joining agent. Returns whether the agent's messages may be
        accepted. If Ray has declared the agent's node dead, they are not accepted, so the agent's
        lease runs out.
        """
        node = self.ray_node(prefix)
        if node and self._living and node not in self._living:
            return False
        if handle is not None:
            self._handles[prefix] = handle
            # perhaps of another process, to which these tokens do not belong
            self._acks.pop(prefix, None)
        return True

    def heard(self, prefix: bytes) -> None:
        """Note that a message of a joined agent has arrived."""
        self._heard[prefix] = own_time()
        self._started.pop(self.ray_node(prefix), None)

    def reported(self, prefix: bytes, report: NodeReport) -> NodeReport:
        """Return an agent's report for the head. Amounts that Ray does not report as available
        count as taken in it.
        """
        self._reports[prefix] = msgspec.structs.replace(report, total=None)
        return merged(report, self._free.get(self.ray_node(prefix)))

    # ---- nodes -------------------------------------------------------------------------------

    def ray_node(self, prefix: bytes) -> str:
        """Return Ray's id of one of these nodes; empty for a node that has never joined."""
        record = self._nodes.of_prefix(prefix)
        return "" if record is None else record.labels.get(NODE_LABEL, record.node_id)

    def viewed(self, rows: list[dict[str, Any]], free: dict[str, Amounts]) -> None:
        """Update the table with Ray's present data about its nodes."""
        self._living = self._naming.living(rows)
        self._free = {node: self._naming.ours(amounts) for node, amounts in free.items()}
        joined = set()
        now = own_time()
        for record in self._nodes.living():
            node = self.ray_node(record.prefix)
            if not self._connected.is_connected(record.prefix):
                continue
            if node not in self._living:
                self._handles.pop(record.prefix, None)
                # The node is given up once its agent must have ended all that it ran.
                self._connected.on_lost(record.prefix)
                continue
            if now < self._heard.get(record.prefix, now) + SILENT_S:
                joined.add(node)  # otherwise its agent may have ended
            self._report_again(record)
        for node_id, there in self._living.items():
            if node_id not in joined:
                self._start_where_due(there, now)

    def _report_again(self, record: NodeRecord) -> None:
        """Report the amounts available in Ray to the head, if they have changed."""
        last = self._reports.get(record.prefix)
        if last is None:
            return
        whole = msgspec.structs.replace(last, total=record.totals)
        report = merged(whole, self._free.get(self.ray_node(record.prefix)))
        if report.available != self._nodes.row(record.node_id).available:
            report.total = None
            self._connected.free_changed(record.prefix, report, self._heard[record.prefix])

    def _start_where_due(self, node: RayNode, now: float) -> None:
        if now < self._started.get(node.node_id, 0.0) + RESTART_S:
            return
        self._started[node.node_id] = now
        known = self._nodes.get(node.node_id)
        is_dead = known is not None and known.state == DEAD
        self._start(
            AgentSetup(
                ray_node=node.node_id,
                node_id=_another(node.node_id) if is_dead else node.node_id,
                host=node.host,
                totals=node.totals,
                labels={**node.labels, NODE_LABEL: node.node_id},
                options=self._options,
            )
        )

    @property
    def are_all_here(self) -> bool:
        """Whether an agent has joined on each node of Ray."""
        here = {
            self.ray_node(record.prefix)
            for record in self._nodes.living()
            if self._connected.is_connected(record.prefix)
        }
        return bool(self._living) and set(self._living) <= here


def _another(node_id: str) -> str:
    """Return a new id for a node that was declared dead and joins again. Only the id's first bytes
    change, with which the ids of the node's processes begin, too.
    """
    return os.urandom(PREFIX_BYTES).hex() + node_id[2 * PREFIX_BYTES :]
