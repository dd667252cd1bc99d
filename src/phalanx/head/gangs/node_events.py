"""Events of nodes, as they concern queues, gangs and jobs."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import HELD
from phalanx.head.gangs.offered_ports import OfferedPorts
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.gangs.scheduler_cache import SchedulerCache
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.queues.control import Queues
from phalanx.head.reservations.control import ReservationControl
from phalanx.protocol.cluster_messages import QueueWeights

REPORTS_PAUSE_S = 0.02
"""Seconds between cycles when nothing has changed except reports of nodes."""


class NodeEvents:
    """Passes each event of a node on to the parts that depend on the node."""

    def __init__(
        self,
        outbox: Outbox,
        *,
        registry: GangRegistry,
        queues: Queues,
        cache: SchedulerCache,
        calendar: ReservationControl,
        outside_work: OutsideWork,
        ports: OfferedPorts,
        reservations: GangBinder,
        jobs: JobGangs,
        request_cycle: Callable[[float], None],
    ) -> None:
        """`request_cycle` requests that a cycle starts within a number of seconds."""
        self._outbox = outbox
        self._registry = registry
        self._queues = queues
        self._cache = cache
        self._calendar = calendar
        self._outside_work = outside_work
        self._ports = ports
        self._reservations = reservations
        self._jobs = jobs
        self._request_cycle = request_cycle

    def node_changed(self, record: NodeRecord) -> None:
        """Note that a node joins, is draining, or has different totals. Request a cycle."""
        self._ports.nodes_changed()
        self._calendar.nodes_changed()
        self._outside_work.node_changed(record.node_id)
        self._cache.nodes_changed()
        self._cache.queues_changed()  # deserved amounts are parts of the totals of all nodes
        self._request_cycle(0.0)

    def node_joined(self, record: NodeRecord) -> None:
        """Send the queues' weights to the node, and let jobs continue there."""
        self._outbox.send(record.prefix, QueueWeights(self._queues.weights()))
        self._jobs.node_joined(record.node_id)

    def node_reported(self, node_id: str, is_news: bool) -> None:
        """Update the amounts that ordinary tasks hold on the node. Request a cycle if the report
        contains news.
        """
        self._outside_work.node_changed(node_id)
        if is_news:
            self._request_cycle(REPORTS_PAUSE_S)

    def node_dead(self, record: NodeRecord, now: float) -> None:
        """Free everything that members had on a dead node, and request a cycle."""
        self._reservations.node_gone(record.node_id, now, record.death)
        self.node_changed(record)

    def has_commands(self, node_id: str) -> bool:
        """Whether members of jobs have their places on a node."""
        gangs = self._registry.active.values()
        return any(
            member.node == node_id and member.state == HELD
            for gang in gangs
            if gang.job
            for member in gang.members
        )
