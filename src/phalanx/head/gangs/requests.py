"""Answers the requests about queues and gangs."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.head.clock import Clock
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.feasibility import new_feasible_gang
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import SHOWN
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.rights.owners import owner_for, sees
from phalanx.model.rows.work import GangInfo, QueueInfo
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, ListGangs
from phalanx.protocol.requests.queues import (
    AdmitQueue,
    CloseQueue,
    CreateQueue,
    DeleteQueue,
    ListQueues,
    OpenQueue,
    QueueFields,
    UpdateQueue,
)
from phalanx.protocol.requests.request import Asker, Entry


class GangRequests:
    """The handlers of requests about queues and gangs."""

    def __init__(
        self,
        clock: Clock,
        nodes: NodeDirectory,
        registry: GangRegistry,
        queues: Queues,
        domains: Domains,
        reservations: GangBinder,
        request_cycle: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._registry = registry
        self._queues = queues
        self._domains = domains
        self._reservations = reservations
        self._request_cycle = request_cycle

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        queues = self._queues
        return [
            CreateQueue.handled_by(
                lambda asker, it: queues.create(it.name, it.fields, asker.is_again)
            ),
            UpdateQueue.handled_by(lambda _, request: queues.update(request.name, request.fields)),
            OpenQueue.handled_by(lambda _, request: queues.open(request.name)),
            CloseQueue.handled_by(lambda _, request: queues.close(request.name)),
            DeleteQueue.handled_by(lambda asker, it: queues.delete(it.name, asker.is_again)),
            ListQueues.handled_by(lambda _, request: queues.rows(request.name)),
            AdmitQueue.handled_by(self._admit_queue),
            CreateGang.handled_by(self._create_gang),
            EndMembers.handled_by(self._end_members),
            ListGangs.handled_by(self._list_gangs),
        ]

    def _admit_queue(self, asker: Asker[None], request: AdmitQueue) -> None:
        if request.makes and self._queues.table.get(request.name) is None:
            self._queues.create(request.name, QueueFields())
        self._queues.require_open(request.name)

    def _create_gang(self, asker: Asker[str], request: CreateGang) -> str:
        gang = self._registry.gangs.get(request.group)
        if gang is None:  # otherwise nodes ask again after the head has restarted
            queue = self._queues.require_open(request.queue)
            topology = self._domains.topology(request.topology)
            gang = new_feasible_gang(
                group=request.group,
                creator=asker.process,
                created=self._clock.wall(),
                limits=self._queues.capability(queue.name),
                domains=self._domains.within(topology, self._nodes.possible()),
                name=request.name,
                queue=request.queue,
                needs=request.needs,
                min_members=request.min_members,
                priority=request.priority,
                topology=topology,
                ports=request.ports,
                grace_s=request.grace_s,
                user=owner_for("", asker),
            )
            self._reservations.add(gang)
            self._request_cycle()
        return gang.name

    def _end_members(self, asker: Asker[None], request: EndMembers) -> None:
        gang = self._registry.gangs.get(request.group)
        if gang is None:
            return
        if unknown := [i for i in request.indexes if not 0 <= i < len(gang.members)]:
            most = len(gang.members) - 1
            raise ValueError(
                f"gang {gang.name} has members 0 to {most}, but no member {unknown[0]}"
            )
        self._reservations.end(gang, request.indexes)

    def _list_gangs(self, asker: Asker[list[GangInfo]], request: ListGangs) -> list[GangInfo]:
        gangs = self._registry.gangs.values()
        return [self.row(gang) for gang in gangs if sees(asker, gang.user)]

    def rows(self) -> list[GangInfo]:
        """Return the gangs that have not ended, for display."""
        return [self.row(gang) for gang in self._registry.gangs.values()]

    def row(self, gang: Gang) -> GangInfo:
        """Return a gang for display."""
        return GangInfo(
            name=gang.name,
            group=gang.gang_id.hex(),
            queue=gang.queue,
            priority=gang.priority,
            phase=gang.phase,
            members=[SHOWN[member.state] for member in gang.members],
            min_members=gang.min_members,
            created=gang.created,
            started=gang.started,
            preempted=gang.preempted,
            ports=gang.ports,
            nodes=[member.node for member in gang.members],
            devices=[member.devices if member.node else {} for member in gang.members],
            job=gang.job,
        )

    def queue_rows(self) -> list[QueueInfo]:
        """Return all queues for display."""
        return self._queues.rows()
