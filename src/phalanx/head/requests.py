"""Answers the requests about nodes, actors, placement groups and keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.head.actors.control import ActorControl
from phalanx.head.actors.table import ActorRecord
from phalanx.head.clock import MachineClock
from phalanx.head.devices import Devices
from phalanx.head.draining import Draining
from phalanx.head.drivers import Drivers
from phalanx.head.event_gathering import EventGathering
from phalanx.head.events.event_log import EventLog
from phalanx.head.groups.control import GroupControl
from phalanx.head.groups.record import Group
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.key_values import KeyValues
from phalanx.head.log_reading import LogReading
from phalanx.head.metrics import HeadMetrics
from phalanx.head.nodes import NodeDirectory
from phalanx.head.outbox import Outbox
from phalanx.head.rights.owners import sees
from phalanx.head.state_queries import StateQueries
from phalanx.head.stranded import Stranded
from phalanx.model.lifecycle import ALIVE, DRAINING
from phalanx.model.options import check_amounts
from phalanx.model.rows.actors import ActorInfo
from phalanx.model.rows.cluster import NodeInfo, StatusInfo
from phalanx.model.rows.explanation import Explanation
from phalanx.observe.events import EventPage
from phalanx.observe.health import HeadReport
from phalanx.protocol.cluster_messages import SetTotals, ViewRow
from phalanx.protocol.messages import PROTOCOL_VERSION
from phalanx.protocol.requests.actors import (
    ActorSpec,
    AnnounceActor,
    ExplainActor,
    GetActor,
    GetActorHandle,
    KillActor,
    KnownActor,
    ListActors,
    ListNamedActors,
    RegisterActor,
    WatchActor,
)
from phalanx.protocol.requests.cluster import (
    ChangeTotals,
    DrainNode,
    GetAvailableResources,
    GetClusterResources,
    GetHealth,
    GetStatus,
    ListClusterEvents,
    ListNodes,
    NewDriverJob,
    UndrainNode,
)
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.groups import (
    CreateGroup,
    GetNamedGroup,
    ListGroups,
    NamedGroup,
    RemoveGroup,
    WaitGroup,
    WatchGroup,
)
from phalanx.protocol.requests.health import Cordon, ListDevices, Uncordon
from phalanx.protocol.requests.key_values import DeleteValues, GetValue, ListKeys, PutValue
from phalanx.protocol.requests.logs import ReadProcessLog
from phalanx.protocol.requests.metrics import GetMetrics
from phalanx.protocol.requests.request import LATER, Asker, Later, RequestHandlers
from phalanx.protocol.requests.state import QueryState
from phalanx.protocol.requests.view import GetViewChanges, ViewChanges
from phalanx.protocol.wire_errors import to_wire
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.strategies import check_strategy

Row = dict[str, Any]
Amounts = dict[str, float]


class HeadRequests:
    """The handlers of the requests about nodes, actors, placement groups and keys."""

    def __init__(
        self,
        outbox: Outbox,
        clock: MachineClock,
        nodes: NodeDirectory,
        drivers: Drivers,
        actors: ActorControl,
        groups: GroupControl,
        events: EventGathering,
        whereabouts: Callable[[], tuple[str, str, list[str]]],
        gang_counts: Callable[[], dict[str, int]],
        state: StateQueries,
        values: KeyValues,
        internal_errors: InternalErrors,
        logs: LogReading,
        devices: Devices,
        metrics: HeadMetrics,
        event_log: EventLog,
        draining: Draining,
        stranded: Stranded,
        lost_nodes: Callable[[], list[str]],
    ) -> None:
        """`whereabouts` returns the addresses of the head and of its store (empty if there is
        none), and sentences about troubles; `gang_counts` how many gangs are in each state that
        StatusInfo names; `lost_nodes` is NodeRecorder.lost_lately.
        """
        self._gang_counts = gang_counts
        self._internal_errors = internal_errors
        self._outbox = outbox
        self._clock = clock
        self._nodes = nodes
        self._drivers = drivers
        self._actors = actors
        self._groups = groups
        self._events = events
        self._whereabouts = whereabouts
        self._event_log = event_log
        self._metrics = metrics
        self._stranded = stranded
        self._lost_nodes = lost_nodes
        self._began = clock.monotonic()
        self.handlers = RequestHandlers(
            "the head",
            NewDriverJob.handled_by(self._new_driver_job),
            GetViewChanges.handled_by(self._get_view_changes),
            ListNodes.handled_by(self._list_nodes),
            GetClusterResources.handled_by(self._get_cluster_resources),
            GetAvailableResources.handled_by(self._get_available_resources),
            DrainNode.handled_by(draining.drain),
            UndrainNode.handled_by(draining.undrain),
            Cordon.handled_by(devices.cordon),
            Uncordon.handled_by(devices.uncordon),
            ChangeTotals.handled_by(self._change_totals),
            ListDevices.handled_by(devices.list_devices),
            ListClusterEvents.handled_by(self._list_cluster_events),
            QueryState.handled_by(state.answer),
            ReadProcessLog.handled_by(logs.read),
            GetMetrics.handled_by(metrics.tell),
            GetStatus.handled_by(self._get_status),
            RegisterActor.handled_by(self._register_actor),
            AnnounceActor.handled_by(self._announce_actor),
            GetActor.handled_by(self._get_actor),
            GetActorHandle.handled_by(self._get_actor_handle),
            WatchActor.handled_by(self._watch_actor),
            KillActor.handled_by(self._kill_actor),
            ListActors.handled_by(self._list_actors),
            ExplainActor.handled_by(self._explain_actor),
            ListNamedActors.handled_by(self._list_named_actors),
            CreateGroup.handled_by(self._create_group),
            WatchGroup.handled_by(self._watch_group),
            WaitGroup.handled_by(self._wait_group),
            RemoveGroup.handled_by(self._remove_group),
            ListGroups.handled_by(self._list_groups),
            GetNamedGroup.handled_by(self._get_named_group),
            PutValue.handled_by(values.put),
            GetValue.handled_by(values.get),
            DeleteValues.handled_by(values.delete),
            ListKeys.handled_by(values.list_keys),
            ListEvents.handled_by(self._list_events),
            GetHealth.handled_by(self._get_health),
            on_defect=internal_errors.in_request,
        )

    # ---- the cluster -------------------------------------------------------------------------

    def _new_driver_job(self, asker: Asker[bytes], request: NewDriverJob) -> bytes:
        return self._drivers.new()

    def _get_view_changes(self, asker: Asker[ViewChanges], request: GetViewChanges) -> ViewChanges:
        return ViewChanges(*self._nodes.changes_since(request.since))

    def _list_nodes(self, asker: Asker[list[NodeInfo]], request: ListNodes) -> list[NodeInfo]:
        return self._nodes.rows()

    def _get_cluster_resources(
        self, asker: Asker[Amounts], request: GetClusterResources
    ) -> Amounts:
        rows = self._rows_of(ALIVE, DRAINING)
        return _sum(row.total for row in rows)

    def _get_available_resources(
        self, asker: Asker[Amounts], request: GetAvailableResources
    ) -> Amounts:
        summed = _sum(row.available for row in self._rows_of(ALIVE))
        return {name: amount for name, amount in summed.items() if amount > 0}

    def _rows_of(self, *states: str) -> list[ViewRow]:
        nodes = self._nodes
        return [nodes.row(record.node_id) for record in nodes.all() if record.state in states]

    def _change_totals(self, asker: Asker[None], request: ChangeTotals) -> None:
        wanted = self._nodes.totals(request.node_id, request.totals)
        self._outbox.send_node(request.node_id, SetTotals(wanted))

    def _list_cluster_events(self, asker: Asker[list[Row]], request: ListClusterEvents) -> Later:
        self._events.gather(asker)
        return LATER

    def _get_health(self, asker: Asker[HeadReport], request: GetHealth) -> HeadReport:
        counts = self._gang_counts()
        return HeadReport(
            began=self._clock.wall() - (self._clock.monotonic() - self._began),
            protocol=PROTOCOL_VERSION,
            known={
                "nodes": len(self._nodes.living()),
                "gangs": sum(counts.get(state, 0) for state in ("running", "waiting")),
                "actors": len(self._actors.table.all()),
                "events": self._event_log.kept,
            },
            numbers=self._metrics.own(),
            held=self._nodes.unwell(),
        )

    def _list_events(self, asker: Asker[EventPage], request: ListEvents) -> EventPage:
        page = self._event_log.page(request.query)
        seen = [one for one in page.events if sees(asker, one.user)]
        return msgspec.structs.replace(page, events=seen)

    def _get_status(self, asker: Asker[StatusInfo], request: GetStatus) -> StatusInfo:
        address, store, troubles = self._whereabouts()
        return StatusInfo(
            address=address,
            store=store,
            nodes=[] if request.is_brief else self._nodes.rows(),
            actors=dict(Counter(actor.state for actor in self._actors.table.all())),
            groups=[] if request.is_brief else self._groups.table.table(),
            jobs=self._drivers.rows(),
            gangs={} if request.is_brief else self._gang_counts(),
            defects=dict(self._internal_errors.rows),
            troubles=troubles,
            stranded=self._stranded.amounts(),
            lost_nodes=self._lost_nodes(),
        )

    # ---- actors ------------------------------------------------------------------------------

    def _register_actor(self, asker: Asker[KnownActor], request: RegisterActor) -> KnownActor:
        _check_actor(request.spec)
        actors, spec = self._actors.table, request.spec
        existing = actors.named(spec.namespace, spec.name)
        is_again = existing is not None and existing.actor == spec.actor
        if existing is not None and request.get_if_exists and not is_again:
            return KnownActor(existing.actor, existing.handle)
        record = _record(asker.process, spec)
        record.creation, record.files = request.creation, request.files
        actors.register(record)
        return KnownActor(record.actor, record.handle, existed=False)

    def refuse_actor(self, owner: bytes, request: RegisterActor, error: PhalanxError) -> None:
        """Report an actor as dead that is not created, to an owner that waits for no answer."""
        record = _record(owner, request.spec)
        self._actors.table.refuse_new(record, str(error), to_wire(error).code)

    def _announce_actor(self, asker: Asker[None], request: AnnounceActor) -> None:
        _check_actor(request.spec)
        self._actors.table.announce(_record(asker.process, request.spec))

    def _get_actor(self, asker: Asker[KnownActor], request: GetActor) -> KnownActor:
        record = self._actors.table.named(request.namespace, request.name)
        if record is None:
            raise ValueError(
                f"Failed to look up actor with name '{request.name}'. This could be because it was "
                f"never created in namespace '{request.namespace}', has died, or its name is "
                "spelled differently."
            )
        return KnownActor(record.actor, record.handle)

    def _get_actor_handle(self, asker: Asker[KnownActor], request: GetActorHandle) -> KnownActor:
        record = self._actors.table.get(request.actor)
        if record is None:
            raise ValueError("the actor is not known")
        return KnownActor(record.actor, record.handle)

    def _watch_actor(self, asker: Asker[None], request: WatchActor) -> None:
        self._actors.table.watch(request.actor, asker.process, self._clock.now())

    def _kill_actor(self, asker: Asker[None], request: KillActor) -> Later:
        record = self._actors.table.get(request.actor)
        worker = record.worker if record is not None else b""
        self._actors.table.kill(request.actor, request.no_restart)
        self._actors.when_gone(worker, lambda: asker.reply(None))
        return LATER

    def _list_actors(self, asker: Asker[list[ActorInfo]], request: ListActors) -> list[ActorInfo]:
        return [_actor_row(record) for record in self._actors.table.all()]

    def _list_named_actors(
        self, asker: Asker[list[tuple[str, str]]], request: ListNamedActors
    ) -> list[tuple[str, str]]:
        return self._actors.table.names(request.namespace)

    def _explain_actor(self, asker: Asker[Explanation], request: ExplainActor) -> Explanation:
        return self._actors.explain(request.actor)

    # ---- placement groups --------------------------------------------------------------------

    def _create_group(self, asker: Asker[None], request: CreateGroup) -> None:
        table = self._groups.table
        if table.get(request.group) is not None:
            return  # asked again after the head came back
        for bundle in request.bundles:
            check_amounts(bundle)
        table.create(
            Group(
                group=request.group,
                name=request.name,
                strategy=request.strategy,
                bundles=[ResourceSet.from_mapping(b) for b in request.bundles],
                creator=asker.process,
                detached=request.detached,
                selectors=request.selectors,
                soft_target=request.soft_target,
                namespace=request.namespace,
            ),
            self._clock.now(),
        )

    def _watch_group(self, asker: Asker[bool], request: WatchGroup) -> bool:
        found = self._groups.table.get(request.group)
        if found is not None:
            self._groups.watch(found, asker.node)
        return found is not None

    def _wait_group(self, asker: Asker[bool], request: WaitGroup) -> bool | Later:
        return self._groups.wait(self._groups.table.get(request.group), asker)

    def _remove_group(self, asker: Asker[None], request: RemoveGroup) -> Later:
        self._groups.when_freed(request.group, asker)
        if self._groups.table.remove(request.group, self._clock.now()) is None:
            self._groups.freed(request.group)
        return LATER

    def _list_groups(self, asker: Asker[list[Row]], request: ListGroups) -> list[Row]:
        return self._groups.table.table()

    def _get_named_group(self, asker: Asker[NamedGroup], request: GetNamedGroup) -> NamedGroup:
        group = self._groups.table.named(request.namespace, request.name)
        if group is None:
            raise ValueError(f"Failed to look up placement group with name: {request.name}")
        return NamedGroup(group.group, [bundle.to_mapping() for bundle in group.bundles])


def _record(owner: bytes, spec: ActorSpec) -> ActorRecord:
    return ActorRecord(owner=owner, job=owner[12:], creation=b"", **msgspec.structs.asdict(spec))


def _check_actor(spec: ActorSpec) -> None:
    check_amounts(spec.place)
    check_amounts(spec.hold)
    if any(amount > spec.place.get(name, 0.0) for name, amount in spec.hold.items()):
        raise ValueError(
            "an actor can only hold part of the resources that it is placed with: "
            f"{spec.place}, {spec.hold}"
        )
    check_strategy(spec.strategy)


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    summed: Amounts = {}
    for of_node in amounts:
        for name, amount in of_node.items():
            summed[name] = round(summed.get(name, 0) + amount, 4)
    return summed


def _actor_row(record: ActorRecord) -> ActorInfo:
    return ActorInfo(
        actor_id=record.actor.hex(),
        class_name=record.class_name,
        state=record.state,
        job_id=record.job.hex(),
        name=record.name,
        ray_namespace=record.namespace,
        node_id=record.node,
        pid=record.pid,
        is_detached=record.detached,
        num_restarts=record.restarts,
        required_resources=record.hold,
        placement_group_id=record.strategy.get("group"),
        death_cause=record.reason,
    )
