"""Queues and gangs at the control store: what people ask for, and who does it.

A gang is a pinned placement group with a bundle a member: `cycles` decides where its members go,
`placing` has it done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from phalanx.batch.plan import Plan
from phalanx.head.gangs.admission import admitted
from phalanx.head.gangs.cycles import Cycles
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.gang import WORDS, Gang
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.jobs.control import Jobs
from phalanx.head.jobs.families import Priorities
from phalanx.head.jobs.logs import Logs
from phalanx.head.jobs.requests import JobRequests
from phalanx.head.queues.control import Queues
from phalanx.model.lifecycle import REMOVED
from phalanx.model.rows.work import GangInfo
from phalanx.protocol.cluster_messages import MemberNews, QueueWeights
from phalanx.protocol.requests.gangs import CreateGang, EndMembers, Explain, ListGangs, TakeSnapshot
from phalanx.protocol.requests.jobs import ReadJobLog
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
from phalanx.protocol.requests.request import Asker, RequestHandlers

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane
    from phalanx.head.nodes import NodeRecord


class GangScheduler:
    """All queues and gangs of the cluster."""

    def __init__(self, shell: ControlPlane) -> None:
        self._shell = shell
        self._told_weights: dict[str, float] = {}
        self.queues = Queues(shell.state_store, self._queues_changed, self._counts, shell.wall)
        self.domains = Domains(shell.state_store, self._domains_changed)
        self.cycles = Cycles(shell, self.queues, self.domains, self._apply, self._stranded)
        self.registry = self.cycles.registry
        self.applier = PlanApplier(shell, self.registry, self.cycles.soon, self)
        self.priorities = Priorities(shell.state_store)
        self.jobs = Jobs(shell, self.registry, self.applier, self.cycles.soon, self.priorities.of)
        self.logs = Logs(shell, self.jobs)
        self.explanations = Explanations(self.cycles)
        self.job_requests = JobRequests(
            shell, self.queues, self.jobs, self.priorities, self.domains, self.explanations
        )
        queues = self.queues
        self.handlers = RequestHandlers(
            "the control store",
            *self.job_requests.entries(),
            ReadJobLog.handled_by(self.logs.read),
            CreateQueue.handled_by(lambda _, request: queues.create(request.name, request.fields)),
            UpdateQueue.handled_by(lambda _, request: queues.update(request.name, request.fields)),
            OpenQueue.handled_by(lambda _, request: queues.open(request.name)),
            CloseQueue.handled_by(lambda _, request: queues.close(request.name)),
            DeleteQueue.handled_by(lambda _, request: queues.delete(request.name)),
            ListQueues.handled_by(lambda _, request: queues.rows(request.name)),
            AdmitQueue.handled_by(self._admit),
            CreateGang.handled_by(self._create_gang),
            EndMembers.handled_by(self._end_members),
            ListGangs.handled_by(lambda _, request: self.rows()),
            Explain.handled_by(lambda _, request: self.explanations.explain(request.name)),
            TakeSnapshot.handled_by(lambda _, request: self.explanations.snapshot()),
        )

    # ---- what people ask for -----------------------------------------------------------------

    def _admit(self, asker: Asker[None], request: AdmitQueue) -> None:
        if request.makes and self.queues.table.get(request.name) is None:
            self.queues.create(request.name, QueueFields())
        self.queues.admit(request.name)

    def _create_gang(self, asker: Asker[str], request: CreateGang) -> str:
        gang = self.registry.gangs.get(request.group)
        if gang is None:  # else asked again after the head came back
            queue = self.queues.admit(request.queue)
            topology = self.domains.topology(request.topology)
            gang = admitted(
                group=request.group,
                creator=asker.process,
                created=self._shell.wall(),
                limits=self.queues.capability(queue.name),
                domains=self.domains.within(topology, self._shell.nodes.living()),
                name=request.name,
                queue=request.queue,
                needs=request.needs,
                least=request.min_members,
                priority=request.priority,
                topology=topology,
                ports=request.ports,
                grace_s=request.grace_s,
            )
            self.applier.add(gang)
        return gang.name

    def _end_members(self, asker: Asker[None], request: EndMembers) -> None:
        gang = self.registry.gangs.get(request.group)
        if gang is not None:
            self.applier.end(gang, request.indexes)

    def actor_ended(self, group: bytes, index: int) -> None:
        """An actor that lived in a bundle of a group is dead for good."""
        gang = self.registry.gangs.get(group)
        if gang is not None and index >= 0:
            self.applier.end(gang, [index])

    def rows(self) -> list[GangInfo]:
        """Gangs, for people."""
        return [
            GangInfo(
                name=gang.name,
                group=gang.group.hex(),
                queue=gang.queue,
                priority=gang.priority,
                phase=gang.phase,
                members=[WORDS[state] for state in gang.states],
                min_members=gang.least,
                created=gang.created,
                started=gang.started,
                preempted=gang.preempted,
                ports=gang.ports,
                nodes=self.registry.nodes_of(gang),
            )
            for gang in self.registry.gangs.values()
        ]

    # ---- what became of members --------------------------------------------------------------

    def arrived(self, gang: Gang, members: list[int]) -> None:
        """See Listener: tasks and actors begin by themselves, commands are started."""
        if gang.job:
            self.jobs.arrived(gang, members)

    def lost(self, gang: Gang, members: list[int]) -> None:
        """See Listener: tasks and actors wait by themselves."""
        if gang.job:
            self.jobs.lost(gang, members)

    def over(self, gang: Gang) -> None:
        """See Listener."""
        if gang.job:
            self.jobs.over(gang)
        self.queues.left(gang.queue)

    def member_news(self, node_id: str, message: MemberNews) -> None:
        """A node says what became of a member's commands."""
        self.jobs.member_news(node_id, message)

    def tick(self) -> None:
        """Time has passed."""
        self.job_requests.tick()

    # ---- state store -----------------------------------------------------------------------

    def restore(self, gangs: Iterable[Gang]) -> None:
        """Know again what the head knew before it restarted; groups are restored before."""
        for gang in gangs:
            self.applier.restore(gang)
            if gang.job and gang.group in self.registry.gangs:
                self.jobs.know_gang(gang)
        self._forget_half_made()
        self.jobs.restore()

    def _forget_half_made(self) -> None:
        """The group of a job's gang may have been written, and the gang not: it gets another."""
        table = self._shell.group_table
        for row in table.table():
            group = table.get(bytes.fromhex(row["placement_group_id"]))
            if group is None or not group.is_pinned or group.state == REMOVED:
                continue
            if not group.creator and group.group not in self.registry.gangs:
                table.remove(group.group, self._shell.clock())

    def _queues_changed(self, anew: bool) -> None:
        self.cycles.queues_changed(anew)
        weights = self.queues.weights()
        if weights != self._told_weights:
            self._told_weights = weights
            self._shell.broadcast(QueueWeights(weights))

    def _domains_changed(self) -> None:
        self.cycles.nodes_changed()

    def node_joined(self, record: NodeRecord) -> None:
        """A node is there, for the first time or again."""
        weights = self.queues.weights()
        if weights:
            self._shell.send(record.prefix, QueueWeights(weights))
        self.jobs.node_joined(record.node_id)

    def _counts(self, queue: str) -> tuple[dict[str, int], int]:
        return self.registry.counts(queue)

    def _stranded(self, gang: Gang) -> None:
        if gang.job and not gang.is_stranded:
            gang.is_stranded = True
            self.jobs.stranded(gang)

    def _apply(self, plan: Plan) -> None:
        self.applier.apply(plan)
