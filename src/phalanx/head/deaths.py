"""The consequences of the death of a node or a process for everything that ran there or was made
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.table import ActorTable
from phalanx.head.clock import WatchedClock
from phalanx.head.devices import Devices
from phalanx.head.drivers import Drivers
from phalanx.head.event_gathering import EventGathering
from phalanx.head.gangs.interface import GangSchedulerInterface
from phalanx.head.groups.table import GroupTable
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.machine_use import MachinesInUse
from phalanx.head.metrics import HeadMetrics
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.nodes.record import NodeRecord
from phalanx.head.outbox import Outbox
from phalanx.head.state_queries import StateQueries
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import DEAD
from phalanx.observe import cluster_events
from phalanx.protocol.cluster_messages import NodeDied
from phalanx.protocol.membership_messages import Expelled

if TYPE_CHECKING:
    from phalanx.head.gangs.gang_scheduler import GangScheduler


class Parts(Protocol):
    """The parts of a head that a death concerns."""

    clock: WatchedClock
    outbox: Outbox
    internal_errors: InternalErrors
    nodes: NodeDirectory
    drivers: Drivers
    actors: ActorControl
    actor_table: ActorTable
    group_table: GroupTable
    gangs: GangSchedulerInterface
    gangs_if_used: GangScheduler | None
    devices: Devices
    machines: MachinesInUse
    events: EventGathering
    state: StateQueries
    metrics: HeadMetrics


class Deaths:
    """Passes each death on to the parts that it concerns. An error in one part does not keep the
    death from the other parts.
    """

    def __init__(self, head: Parts) -> None:
        self._head = head

    def node_dead(self, record: NodeRecord, reason: str) -> None:
        """Report a dead node to the other nodes, and give up everything that ran on it."""
        head = self._head
        now = head.clock.now()
        died = NodeDied(record.prefix, record.node_id, reason, record.death)
        head.outbox.broadcast(died, but=record.prefix)
        head.outbox.send(record.prefix, Expelled(reason, is_stale=True))
        head.outbox.disconnect(record.prefix)
        head.events.node_gone(record.prefix)
        head.state.node_dead(record.prefix)
        head.devices.node_gone(record.node_id)
        head.machines.node_gone(record.node_id)
        head.metrics.node_dead(record.node_id)
        head.events.record(
            cluster_events.NodeDied(at=head.clock.wall(), node=record.prefix.hex(), reason=reason)
        )
        apart = head.internal_errors.kept_apart
        with apart("message", "actors of a dead node"):
            head.actors.node_died(record, reason)
        with apart("message", "drivers of a dead node"):
            head.drivers.node_died(record.prefix)
        with apart("message", "what workers of a dead node made"):
            for process in self._creators():
                if process[:PREFIX_BYTES] == record.prefix:
                    self.process_ended(process, False, now)
        with apart("message", "groups on a dead node"):
            head.group_table.node_gone(record.node_id, now)
        with apart("message", "gangs on a dead node"):
            head.gangs.node_dead(record, now)

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """End everything that a driver or worker owned, because its process has ended."""
        head = self._head
        apart = head.internal_errors.kept_apart
        with apart("message", "actors of a process that ended"):
            head.actor_table.process_gone(process)
        with apart("message", "groups of a process that ended"):
            head.group_table.creator_gone(process, now)
        with apart("message", "gangs of a process that ended"):
            head.gangs.creator_gone(process)
        if is_driver:
            head.drivers.driver_gone(process)

    def finish_earlier(self, now: float) -> None:
        """Handle once more the deaths of nodes that an earlier head recorded, because that head may
        have ended before it stored all consequences.
        """
        head = self._head
        for dead in head.nodes.all():
            if not head.nodes.is_alive(dead.node_id):
                head.drivers.node_died(dead.prefix)
        for process in self._creators():
            record = head.nodes.of_prefix(process[:PREFIX_BYTES])
            if record is not None and not head.nodes.is_alive(record.node_id):
                self.process_ended(process, False, now)

    def _creators(self) -> list[bytes]:
        """Return, without duplicates, the processes that own a living actor, or that have created a
        gang or a group that is not detached.
        """
        head = self._head
        gangs = () if head.gangs_if_used is None else head.gangs_if_used.registry.gangs.values()
        made = (
            *(actor.owner for actor in head.actor_table.all() if actor.state != DEAD),
            *head.group_table.creators(),
            *(gang.creator for gang in gangs),
        )
        return [process for process in dict.fromkeys(made) if process]
