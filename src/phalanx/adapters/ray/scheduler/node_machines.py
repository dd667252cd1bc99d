"""All machines of a Ray node: bundles with exact devices, and members of jobs. The machines of an
ordinary node for tasks, actors and objects are missing, because Ray handles these.
"""

from __future__ import annotations

import os
from secrets import token_bytes
from typing import Any

from phalanx.adapters.ray.scheduler.gang_workers import GangWorkers
from phalanx.model.ids import node_prefix, node_process_id
from phalanx.node.bundle_table import BundleTable
from phalanx.node.directories import Directories
from phalanx.node.dispatch import MessageTable
from phalanx.node.fork_watch import ForkWatch
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import NodeGroups
from phalanx.node.head_link import RemoteHeadLink
from phalanx.node.job_members import JobMembers
from phalanx.node.member_effects import MemberEffects
from phalanx.node.peers import Peer
from phalanx.node.reports import Reports, view_row
from phalanx.node.shortage import Shortage
from phalanx.node.usage import NoUsageMeter
from phalanx.observe.state.query import StatePart
from phalanx.protocol.cluster_messages import ForwardedReply
from phalanx.protocol.fork_messages import Began, Exited, OutputRead
from phalanx.protocol.membership_messages import Acked, Join
from phalanx.protocol.report_messages import (
    EventsReported,
    GatherEvents,
    GatherState,
    NodeReport,
    StateReported,
)
from phalanx.runtime.os.directory_space import DirectorySpace, Watched
from phalanx.runtime.os.fork_client import CommandClient, ForkClient, how_it_ended
from phalanx.runtime.os.job_files import JobDirectories
from phalanx.runtime.os.memory_use import SessionMemory
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.ports import is_port_free
from phalanx.runtime.os.system import say
from phalanx.scheduler.devices.instances import NodeResources


class NodeMachines:
    """Composes the machines of one node, and passes each message to the machine that handles it."""

    def __init__(
        self,
        node_id: str,
        resources: NodeResources,
        labels: dict[str, str],
        forks: ForkClient,
        directory: str,
        report_every_s: float,
    ) -> None:
        """`forks`: the connection to the process that starts commands. `directory`: the folder for
        the files of jobs on this node. `report_every_s`: seconds between reports of the available
        amounts; a report is also sent when something was given back.
        """
        self.prefix = node_prefix(node_id)
        self._node_id = node_id
        self._forks = forks
        self._resources = resources
        self._labels = labels
        clock = own_time
        files = JobDirectories(os.path.join(directory, "jobs"))
        reading = DirectorySpace((Watched("what jobs print", directory, has_logs=True),))
        self._directories = Directories(reading, clock, say)
        self._shortage = Shortage(clock, say)
        self.control = RemoteHeadLink()
        self._bundles = BundleTable(resources)
        # The node reports resources that it gives back at once. The scheduler itself decides every
        # other change of this node. Reports of those changes would cost one more Ray call for every
        # gang.
        self._reports = Reports(clock, self, self.control, report_every_s, report_every_s)
        self.workers = GangWorkers(self._bundles)
        self.members = JobMembers(
            MemberEffects(
                clock=clock,
                commands=CommandClient(forks, files),
                files=files,
                memory=SessionMemory(),
                make_unique=token_bytes,
                usage=NoUsageMeter(),
                note=say,
            ),
            self._bundles,
            self.control,
            directories=self._directories,
            report=self._reports.report_changed,
            shortage=self._shortage,
        )
        self._fork_watch = ForkWatch(clock, forks, say)
        forks.ordered = self._fork_watch.ordered
        self._groups = NodeGroups(
            node_process_id(self.prefix),
            clock,
            bundles=self._bundles,
            places=GroupPlaces(node_id, self._bundles),
            leases=self.workers,
            tenants=(self.members, self.workers),
            head=self.control,
            request_plan=lambda: None,  # no other node is ever asked for room
            report_changed=self._reports.report_changed,
            is_port_free=is_port_free,
        )
        self.from_scheduler = MessageTable()
        """The handlers of the scheduler's messages. Messages about tasks and actors have no
        handler.
        """
        self._groups.handle_in(self.from_scheduler)
        self.members.handle_in(self.from_scheduler)
        self.from_scheduler.on(Acked, self.control.acked)
        self.from_scheduler.on(ForwardedReply, self.control.replied)
        self.from_scheduler.on(GatherEvents, self._send_events)
        self.from_scheduler.on(GatherState, self._send_state)

    def _send_events(self, message: GatherEvents) -> None:
        self.control.report(EventsReported(message.number, []))

    def _send_state(self, message: GatherState) -> None:
        """Do nothing: Ray keeps the tasks, objects and workers."""
        self.control.report(StateReported(message.number, StatePart([], 0, 0)))

    # ---- what the agent passes in ------------------------------------------------------------

    def joined(self, scheduler: Peer) -> None:
        """Note that this node has joined the scheduler (again)."""
        self.control.connected(scheduler)
        self._groups.head_joined()
        self._reports.head_joined()

    def from_fork_server(self, message: Any) -> None:
        """Note that a command has started or ended."""
        self._fork_watch.heard()
        match message:
            case OutputRead():
                self._forks.drained()
            case Began():
                self.members.began(message.process, message.pid)
            case Exited():
                self.members.exited(message.process, how_it_ended(message))

    def on_tick(self, now: float) -> None:
        self._bundles.tick(now)
        self._directories.tick(now)
        self._shortage.tick(now)
        self._groups.tick(now)
        self.members.tick(now)
        self._fork_watch.tick(now)
        self.workers.tick(now)
        self._groups.settle()
        self._reports.tick(now)

    def on_round(self) -> None:
        """Finish a round, after all messages that had arrived were handled."""
        self._groups.settle()
        self._reports.round()

    # ---- how the node describes itself -------------------------------------------------------

    def report(self) -> NodeReport:
        """Return the report of the amounts available on this node, by Phalanx's own account."""
        return NodeReport(
            available=self._resources.available(),
            devices=self._resources.devices_left(),
            total=self._resources.total(),
            directories=self._directories.trouble,
            shortage=self._shortage.trouble,
        )

    def join(self, host: str, hostname: str, epoch: int) -> Join:
        """Return the message with which the node joins.

        `host`: the address of its machine. `epoch`: the epoch under which the node joined before, 0
        for none.
        """
        row = view_row(self._node_id, self.prefix, self._labels, self.report())
        row.host = host
        return Join(row, hostname, epoch, {}, self._bundles.inventory())
