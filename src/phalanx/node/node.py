"""A node: connects all its machines, and gives each only the parts that it uses.

A shell (the runtime's node, or the simulated one) provides the effects. Then it reports messages,
lost connections, ticks and rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from phalanx.model.ids import node_prefix, node_process_id, process_id
from phalanx.model.node_use import ProcessOfNode
from phalanx.model.system_settings import SystemSettings
from phalanx.node.actors import NodeActors
from phalanx.node.bundle_table import BundleTable
from phalanx.node.checks import Checks
from phalanx.node.device_holders import DeviceHolders, Holder
from phalanx.node.device_metrics import DeviceMetrics
from phalanx.node.devices import DeviceWatch
from phalanx.node.directories import Directories
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.drivers import Drivers
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.events import NodeEvents
from phalanx.node.failed_orders import refusal
from phalanx.node.fork_watch import ForkWatch
from phalanx.node.gpu_memory import GpuMemory
from phalanx.node.gpu_shares import GpuShares
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import NodeGroups
from phalanx.node.head_link import HeadLink
from phalanx.node.job_members import JobMembers
from phalanx.node.killed_parts import KilledParts
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.remote import BorrowedLeases, LeaseInquiries
from phalanx.node.leases.requests import LeaseRequests, OwnerLeases
from phalanx.node.local_processes import LocalProcesses
from phalanx.node.machine_use import MachineUse
from phalanx.node.member_effects import MemberEffects
from phalanx.node.membership import Holdings
from phalanx.node.metrics import ALONE_EVERY_S, SAY_EVERY_S, NodeCounts
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.node_use import NodeUsage
from phalanx.node.object_store import ObjectStore
from phalanx.node.other_nodes import OtherNodes
from phalanx.node.own_requests import OwnRequests
from phalanx.node.peers import DRIVER, NODE, Peer, Peers
from phalanx.node.process_ends import ProcessEnds
from phalanx.node.process_history import ProcessHistory
from phalanx.node.process_records import ProcessRecords
from phalanx.node.processes_now import ProcessMeter, of_members, of_programs
from phalanx.node.reports import NodeStatus, Reports
from phalanx.node.requests import NodeRequests
from phalanx.node.shortage import Shortage
from phalanx.node.spillback_planner import PlanRequests, SpillbackPlanner, ViewRefresh
from phalanx.node.standing import Standing
from phalanx.node.state_reports import StateReports
from phalanx.node.usage import Device
from phalanx.node.waiting_tasks import WaitingTasks
from phalanx.node.worker_output import WorkerOutput
from phalanx.node.worker_processes import WorkerProcesses
from phalanx.node.workers import WorkerPool
from phalanx.protocol.asking import Ask
from phalanx.protocol.bundle_messages import ClaimRoom
from phalanx.protocol.cluster_messages import (
    EndWork,
    EnvironmentKnown,
    JobKnown,
    QueueWeights,
    SetTotals,
    Via,
    ViewRow,
)
from phalanx.protocol.frames import decode_body
from phalanx.protocol.messages import Hello
from phalanx.protocol.node_messages import LeaseWanted, Stop
from phalanx.protocol.report_messages import EventsReported, GatherEvents, ReportHeard
from phalanx.scheduler.placement.placement_policy import PlacementPolicy


class Membership(Protocol):
    """The membership of a node in its cluster."""

    @property
    def trouble(self) -> str:
        """Why the head cannot be reached; "" while it can."""
        ...

    def handle_in(self, table: MessageTable) -> None:
        """Register the handlers for the head's answers."""
        ...

    def is_head(self, connection: Peer) -> bool:
        """Whether this is the connection to the head."""
        ...

    def heard(self) -> None:
        """Note that a message has come over the connection to the head."""
        ...

    def connection_lost(self, refusal: str, is_about_token: bool, is_given_up: bool) -> None:
        """Handle the end of the connection to the head. `refusal`: why it could not be made, if it
        could not.

        `is_given_up`: whether the head has declared the node dead.
        """
        ...

    def tick(self, now: float) -> None:
        """Do the work that is due."""
        ...

    def round(self) -> None:
        """Handle the end of a round. All messages that had arrived are handled."""
        ...


M_co = TypeVar("M_co", bound=Membership, covariant=True)


class Node(Generic[M_co]):
    """The machines of a node, connected with each other."""

    def __init__(  # noqa: PLR0915 -- it puts all parts together
        self,
        setup: NodeSetup,
        effects: NodeEffects,
        head: HeadLink,
        make_spilling: Callable[[LeaseInquiries, GroupPlaces], Spills],
        make_membership: Callable[[Node[M_co]], M_co],
        reports_every_tick: bool = False,
    ) -> None:
        """`make_membership` gets the node when all other parts are made."""
        clock = self._clock = effects.clock
        self._connections = effects.connections
        self._report_defect = effects.report_defect
        # Messages, the standing with the head, and connections to processes and other nodes.
        self.from_head = MessageTable()
        self.from_processes = PeerMessageTable()
        self.prefix = prefix = node_prefix(setup.node_id)
        self.standing = Standing(effects.monotonic)
        self.resources = setup.resources
        self.head = head
        self.peers = Peers()
        self.jobs = KnownJobs(setup.settings)
        self.events = NodeEvents(prefix, effects.wall)
        self.links = NodeLinks(prefix, effects.connections)
        # Resources are lent in leases, inside or outside of bundles; other nodes may lend, too.
        self.workers = WorkerProcesses(effects.forks, self.peers, self.jobs)
        self.bundles = BundleTable(setup.resources)
        places = GroupPlaces(setup.node_id, self.bundles)
        inquiries = LeaseInquiries(self.links, self.jobs, self.events)
        self.spilling = make_spilling(inquiries, places)

        def new_process(job: bytes) -> bytes:
            return process_id(prefix, effects.make_unique(6), job)

        self.leases = LeaseMachine(
            setup.resources,
            self.workers,
            WorkerPool(int(setup.resources.total().get("CPU", 0)), new_process, setup.max_workers),
            node_id=setup.node_id,
            labels=setup.labels,
            groups=places,
            other_nodes=self.spilling,
            waited=self._lease_waited,
        )
        plans = PlanRequests()
        self.borrowed = BorrowedLeases(
            self.links, self.peers, self.leases.waiting, self.spilling, plans
        )
        # Objects in shared memory.
        self.store = ObjectStore(
            clock,
            setup.object_store_bytes,
            disk=setup.disk,
            files=effects.store_files,
            spill_files=effects.spill_files,
            transfers=effects.transfers,
            links=self.links,
            peers=self.peers,
            jobs=self.jobs,
            events=self.events,
        )
        # Members of jobs, and the conditions under which they may begin here.
        self.checks = Checks(
            effects.checks,
            setup.checks,
            lambda: not self.has_work(),
            lambda: setup.resources.total().get("GPU", 0.0),
            effects.note,
        )
        self.directories = Directories(effects.directories(self.store), clock, effects.note)
        self.shortage = Shortage(clock, effects.note)
        self.gpus = GpuShares(effects.mps, setup.resources.card_memory)
        self.members = JobMembers(
            MemberEffects(
                clock=clock,
                commands=effects.commands,
                files=effects.job_files,
                memory=effects.memory,
                make_unique=effects.make_unique,
                usage=effects.usage,
                note=effects.note,
                keeping=effects.keeping,
            ),
            self.bundles,
            head,
            devices=self._device_use,
            checks=self.checks,
            directories=self.directories,
            report=self._report,
            shortage=self.shortage,
            gpus=self.gpus,
            may_begin=self.standing.is_sure,
        )
        # GPUs: who holds them, what they report, and the limits of those who share them.
        holders = DeviceHolders(self.members, self.leases, setup.resources.card_memory)
        self.gpu_memory = GpuMemory(
            setup.resources,
            holders.all,
            self._end_holder,
            effects.devices.look,
            self.gpus,
            effects.note,
        )
        self.devices = DeviceWatch(
            setup.resources,
            effects.devices,
            holders=holders,
            head=head,
            room_changed=self.leases.dispatch,
            clock=clock,
            note=effects.note,
            memory=self.gpu_memory,
        )
        # The state of the node itself, and its reports to the head.
        self.fork_watch = ForkWatch(clock, effects.fork_server, effects.note)
        self.killed_parts = KilledParts(effects.note)
        self.status = NodeStatus(
            setup,
            leases=self.leases,
            store=self.store,
            members=self.members,
            watch=self.devices,
            fork_watch=self.fork_watch,
            checks=self.checks,
            directories=self.directories,
            shortage=self.shortage,
            killed_parts=self.killed_parts,
        )
        pacing = {"at_most_every_s": 0.0, "every_s": 0.0} if reports_every_tick else {}
        self.reports = Reports(clock, self.status, head, standing=self.standing, **pacing)
        # Orders of the head (bundles, actors) and requests of owners (leases).
        self.groups = NodeGroups(
            node_process_id(prefix),
            clock,
            bundles=self.bundles,
            places=places,
            leases=self.leases,
            tenants=(self.members, self.leases),
            head=head,
            request_plan=plans.request,
            report_changed=self.reports.report_changed,
            is_port_free=effects.is_port_free,
        )
        self.actors = NodeActors(
            clock,
            self.leases,
            groups=self.groups,
            workers=self.workers,
            peers=self.peers,
            jobs=self.jobs,
            head=head,
            report_needed=self.reports.report_needed,
            gpus=self.gpus,
            may_begin=self.standing.is_sure,
        )
        self.owners = OwnerLeases(
            clock,
            self.leases,
            borrowed=self.borrowed,
            peers=self.peers,
            jobs=self.jobs,
            events=self.events,
            kill_worker=self.workers.kill,
            gpus=self.gpus,
            end_worker=self.workers.end_worker,
        )
        self.wanted = LeaseRequests(
            prefix,
            clock,
            leases=self.leases,
            asker=self.owners,
            groups=self.groups,
            plans=plans,
            spilling=self.spilling,
            links=self.links,
            events=self.events,
        )
        # Drivers, workers and other nodes: their beginnings and ends, their output and numbers.
        self.history = ProcessHistory(effects.wall)
        self.drivers = Drivers(
            setup,
            head,
            leases=self.leases,
            workers=self.workers,
            peers=self.peers,
            jobs=self.jobs,
            store=self.store,
            new_process=new_process,
            history=self.history,
        )
        self.others = OtherNodes(
            effects,
            links=self.links,
            peers=self.peers,
            leases=self.leases,
            spilling=self.spilling,
            inquiries=inquiries,
            borrowed=self.borrowed,
            store=self.store,
            plans=plans,
        )
        self.view = ViewRefresh(node_process_id(prefix), head, self.others.view)
        self.planner = SpillbackPlanner(
            clock, self.leases, self.spilling, self.view, plans, self.status.row
        )
        self.counts = NodeCounts(
            head,
            self.leases,
            self.store,
            DeviceMetrics(setup.resources, self.devices),
            effects.look,
            effects.note,
            ALONE_EVERY_S if reports_every_tick else SAY_EVERY_S,
        )
        self.records = ProcessRecords(self.history, self.counts, note=effects.note, clock=clock)
        self.processes = LocalProcesses(
            clock,
            effects.connections,
            head,
            peers=self.peers,
            links=self.links,
            leases=self.leases,
            workers=self.workers,
            drivers=self.drivers,
            ends=ProcessEnds(
                clock,
                head,
                links=self.links,
                leases=self.leases,
                spilling=self.spilling,
                borrowed=self.borrowed,
                store=self.store,
                counts=self.counts,
            ),
            records=self.records,
        )
        self.output = WorkerOutput(
            effects.logs,
            head,
            workers=self.leases.workers,
            jobs=self.jobs,
            peers=self.peers,
            links=self.links,
        )
        self.state = StateReports(
            setup.node_id,
            clock,
            head,
            peers=self.peers,
            leases=self.leases,
            store=self.store,
            events=self.events,
            history=self.history,
        )
        self._process_meter = ProcessMeter(effects.process_usage)
        self._wall = effects.wall
        self.usage = NodeUsage(
            head,
            clock,
            holdings=lambda: (setup.resources.total(), setup.resources.available()),
            gpus=self.devices.use,
            processes=self._processes_now,
        )
        self.machine_use = MachineUse(effects.read_machine, head, self.usage.add)
        # Made last, because they use the parts above.
        self.membership = make_membership(self)
        self.requests = NodeRequests(
            OwnRequests(
                setup.node_id,
                setup.labels,
                self.drivers,
                self.store,
                self.events,
                WaitingTasks(self.leases.waiting, self.spilling, self.resources, clock),
                effects.drain_output,
            ).handlers,
            head,
            self.membership,
            setup.address,
            self.reports.report_needed,
        )
        self._handle_head()
        self._handle_processes()
        self._handle_other_nodes()

    def _handle_head(self) -> None:
        """Register the handlers for messages of the head."""
        table, leases, clock = self.from_head, self.leases, self._clock
        self.membership.handle_in(table)
        self.actors.handle_in(table, self.from_processes)
        self.groups.handle_in(table)
        self.members.handle_in(table)
        self.devices.handle_in(table)
        self.usage.handle_in(table)
        self.output.handle_in(table)
        self.drivers.handle_in(table)
        self.others.handle_in(table)
        table.on(Via, self._pass_on)
        table.on(JobKnown, self.jobs.job_known)
        table.on(EnvironmentKnown, self.jobs.environment_known)
        table.on(ClaimRoom, lambda message: leases.claim(message, clock()))
        table.on(SetTotals, lambda message: leases.set_totals(message.totals, clock()))
        table.on(EndWork, lambda message: leases.end_all(message.reason, message.by_force))
        table.on(QueueWeights, lambda message: leases.set_weights(message.weights, clock()))
        table.on(GatherEvents, self._send_events)
        table.on(ReportHeard, self._report_heard)

    def _handle_processes(self) -> None:
        """Register the handlers for messages of this node's drivers and workers."""
        table = self.from_processes
        table.on(Hello, self.processes.introduced)
        table.on(Ask, self.requests.answer)
        table.on(LeaseWanted, self.wanted.wanted)
        self.owners.handle_in(table)
        self.store.handle_in(table)
        self.events.handle_in(table)
        self.state.handle_in(self.from_head, table)
        self.counts.handle_in(table)
        table.on(Stop, lambda peer, message: self._connections.lose(peer))

    def _handle_other_nodes(self) -> None:
        """Register the handlers for messages of other nodes and of their processes."""
        from_afar = self.others.from_afar
        from_afar.on(LeaseWanted, self.wanted.wanted)
        self.owners.handle_from_afar_in(from_afar)
        self.store.handle_from_afar_in(from_afar)
        self.store.handle_from_nodes_in(self.others.from_nodes)
        self.jobs.handle_from_nodes_in(self.others.from_nodes)

    def _device_use(self) -> dict[int, Device]:
        return self.devices.use()  # a method, because the devices are made after the members

    def _end_holder(self, holder: Holder, reason: str, is_for_memory: bool) -> None:
        """End the holder of a shared GPU, because it uses too much memory or because the GPU's MPS
        daemon has ended.
        """
        worker = self.leases.workers.get(holder.key)
        if holder.is_member:
            prefix = "out of GPU memory: " if is_for_memory else ""
            self.members.end_now(holder.key, prefix + reason)
        elif is_for_memory:
            self.workers.kill_for_memory(holder.key, reason)
        elif worker is not None:
            self.workers.end_worker(worker, reason, True)

    def _lease_waited(self, seconds: float) -> None:
        self.counts.meter.observe("phalanx_lease_wait_seconds", seconds)

    def _pass_on(self, message: Via) -> None:
        """Pass a message of the head on to a process of this node."""
        for inner in decode_body(message.body):
            self.peers.post(message.process, inner)

    def _report_heard(self, message: ReportHeard) -> None:
        self.standing.heard(message.number)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        """Begin the work that waited until the head is known to count on this node."""
        self.members.begin_waiting()
        self.actors.begin_waiting()

    def _send_events(self, message: GatherEvents) -> None:
        self.head.report(EventsReported(message.number, self.events.rows()))

    # ---- input from the shell --------------------------------------------------------------------

    def on_message(self, connection: Peer, message: Any) -> None:
        """Handle a message. A sender that may not send it loses its connection."""
        if connection.tag == NODE:
            self.others.on_message(connection, message)
        elif self.membership.is_head(connection):
            self.membership.heard()
            try:
                self.from_head.handle(message)
            except Exception as error:  # the head repeats its order to a node that comes back
                self._report_defect(error)
                answer = refusal(message, error)
                if answer is not None:
                    self.head.notify(answer)
        else:
            is_known = bool(connection.peer) or isinstance(message, Hello | Ask)
            if not (is_known and self.from_processes.handle(connection, message)):
                self._connections.lose(connection)

    def on_lost(
        self,
        connection: Peer,
        refusal: str = "",
        is_about_token: bool = False,
        is_given_up: bool = False,
    ) -> None:
        """Handle a connection that has ended, or that could not be made. `refusal`: why it could
        not be made.
        """
        if self.membership.is_head(connection):
            self.membership.connection_lost(refusal, is_about_token, is_given_up)
        elif connection.tag == NODE:
            self.others.connection_lost(connection, refusal)
        else:
            self.processes.connection_lost(connection)

    def on_tick(self, now: float) -> None:
        """Let each part do the work that is due. An error in one part does not stop the others."""
        for tick in (
            self.leases.tick,
            self.workers.tick,
            self.records.tick,
            self._tick_bundles,
            self.store.tick,
            self.groups.tick,
            self.directories.tick,
            self.shortage.tick,
            self.members.tick,
            self.fork_watch.tick,
            self.devices.tick,
            self.machine_use.tick,
            self.checks.tick,
            self.state.tick,
            lambda now: self.groups.settle(),
            self.reports.tick,
            self.membership.tick,
            self.planner.tick,
            self.counts.tick,
        ):
            try:
                tick(now)
            except Exception as error:
                self._report_defect(error)

    def _report(self) -> None:
        self.reports.report_changed()

    def _processes_now(self) -> list[ProcessOfNode]:
        rows = [
            *of_members(self.members.all(), self._clock()),
            *of_programs(self.history.living(), self.leases, self._wall()),
        ]
        return self._process_meter.measured(rows, self._clock())

    def _tick_bundles(self, now: float) -> None:
        if self.bundles.tick(now):
            self.leases.dispatch(now)

    def on_round(self) -> None:
        """Handle the end of a round. All messages that had arrived are handled."""
        self.leases.round(self._clock())
        self.groups.settle()
        self.reports.round()
        self.membership.round()
        has_settled = self.groups.settle()  # a head in this process may have freed bundles
        if self.planner.round() or has_settled:
            self.membership.round()

    # ---- questions of its membership -------------------------------------------------------------

    def on_head_joined(self, placement: PlacementPolicy, settings: SystemSettings) -> None:
        """Store the cluster's placement policy and settings, and report everything to the head
        again.
        """
        self.spilling.use(placement)
        self.jobs.settings = settings
        self._begin_waiting()
        self.groups.head_joined()
        self.reports.head_joined()
        self.counts.head_joined()
        self.members.head_joined()
        self.drivers.head_joined()

    def on_head_lost(self) -> None:
        """Forget which view of the cluster the lost head has sent, so that the next head is asked
        for it.
        """
        self.view.head_lost()

    def lose(self, connection: Peer) -> None:
        """End a connection as if its other end had ended it."""
        self._connections.lose(connection)

    def own_row(self) -> ViewRow:
        """Return the node's row for other nodes, without its address."""
        return self.status.row()

    def given_up(self) -> list[bytes]:
        """Return the prefixes of the nodes that a head has declared dead."""
        return self.links.given_up()

    def holdings(self) -> Holdings:
        """Return what a head must know about this node when it joins."""
        return self.actors.here(), self.bundles.inventory()

    def has_work(self) -> bool:
        """Whether a driver, a task, an actor or a member of a job runs here."""
        has_driver = any(peer.tag == DRIVER for peer in self.peers.local())
        return has_driver or bool(self.leases.leases) or len(self.members) > 0

    def has_places(self) -> bool:
        """Whether the node holds places for jobs, gangs or groups."""
        return bool(self.bundles.inventory().held)
