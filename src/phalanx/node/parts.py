"""The machines of a node, connected with each other: each gets only the parts that it uses."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import node_prefix, node_process_id, process_id
from phalanx.model.node_use import ProcessOfNode
from phalanx.node.actors import NodeActors
from phalanx.node.bundle_table import BundleTable
from phalanx.node.checks import Checks
from phalanx.node.device_holders import DeviceHolders, Holder
from phalanx.node.device_metrics import DeviceMetrics
from phalanx.node.devices import DeviceWatch
from phalanx.node.directories import Directories
from phalanx.node.drivers import Drivers
from phalanx.node.effects import NodeEffects, NodeSetup
from phalanx.node.events import NodeEvents
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
from phalanx.node.metrics import ALONE_EVERY_S, SAY_EVERY_S, NodeCounts
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.node_use import NodeUsage
from phalanx.node.object_store import ObjectStore
from phalanx.node.other_nodes import OtherNodes
from phalanx.node.peers import DRIVER, Peers
from phalanx.node.process_ends import ProcessEnds
from phalanx.node.process_history import ProcessHistory
from phalanx.node.process_records import ProcessRecords
from phalanx.node.processes_now import ProcessMeter, of_members, of_programs
from phalanx.node.reports import NodeStatus, Reports
from phalanx.node.shortage import Shortage
from phalanx.node.spillback_planner import PlanRequests, SpillbackPlanner, ViewRefresh
from phalanx.node.standing import Standing
from phalanx.node.state_reports import StateReports
from phalanx.node.usage import Device
from phalanx.node.worker_output import WorkerOutput
from phalanx.node.worker_processes import WorkerProcesses
from phalanx.node.workers import WorkerPool


class NodeParts:
    """All machines of a node except its membership in the cluster."""

    def __init__(  # noqa: PLR0915 -- it lists all parts
        self,
        setup: NodeSetup,
        effects: NodeEffects,
        head: HeadLink,
        make_spilling: Callable[[LeaseInquiries, GroupPlaces], Spills],
        reports_every_tick: bool,
    ) -> None:
        clock = self._clock = effects.clock
        self._connections = effects.connections
        self._report_defect = effects.report_defect
        # Messages, the standing with the head, and connections to processes and other nodes.
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
        meter = ProcessMeter(effects.process_usage)

        def processes() -> list[ProcessOfNode]:
            rows = [
                *of_members(self.members.all(), clock()),
                *of_programs(self.history.living(), self.leases, effects.wall()),
            ]
            return meter.measured(rows, clock())

        self.usage = NodeUsage(
            head,
            clock,
            holdings=lambda: (setup.resources.total(), setup.resources.available()),
            gpus=self.devices.use,
            processes=processes,
        )
        self.machine_use = MachineUse(effects.read_machine, head, self.usage.add)

    def has_work(self) -> bool:
        """Whether a driver, a task, an actor or a member of a job runs here."""
        has_driver = any(peer.tag == DRIVER for peer in self.peers.local())
        return has_driver or bool(self.leases.leases) or len(self.members) > 0

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

    def _report(self) -> None:
        self.reports.report_changed()
