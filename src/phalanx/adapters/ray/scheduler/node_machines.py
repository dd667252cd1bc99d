"""The machines of a Ray node put together: bundles with exact devices, and the members of jobs.

They are those of every node, but for tasks, actors and objects: Ray has those.
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
from phalanx.node.peers import Peer
from phalanx.node.reports import Reports, view_row
from phalanx.node.usage import NoUsageMeter
from phalanx.observe.state.query import StatePart
from phalanx.protocol.cluster_messages import (
    Acked,
    EventsReported,
    ForwardedReply,
    GatherEvents,
    GatherState,
    Join,
    NodeReport,
    StateReported,
)
from phalanx.protocol.fork_messages import Began, Exited, OutputRead
from phalanx.runtime.os.directory_space import DirectorySpace, Watched
from phalanx.runtime.os.fork_client import CommandClient, ForkClient, how_it_ended
from phalanx.runtime.os.job_files import JobDirectories
from phalanx.runtime.os.memory_use import SessionMemory
from phalanx.runtime.os.own_time import own_time
from phalanx.runtime.os.ports import is_port_free
from phalanx.runtime.os.system import say
from phalanx.scheduler.devices.instances import NodeResources


class NodeMachines:
    """The machines of one node, and which of them gets what."""

    def __init__(
        self,
        node_id: str,
        resources: NodeResources,
        labels: dict[str, str],
        forks: ForkClient,
        directory: str,
        report_every_s: float,
    ) -> None:
        """`forks`: to the process that starts commands. `directory`: for what jobs leave on this
        node's disk. What is free here is reported this often, and when some was given back."""
        self.prefix = node_prefix(node_id)
        self._node_id = node_id
        self._forks = forks
        self._resources = resources
        self._labels = labels
        clock = own_time
        files = JobDirectories(os.path.join(directory, "jobs"))
        reading = DirectorySpace((Watched("what jobs print", directory, has_logs=True),))
        self._directories = Directories(reading, clock, say)
        self.control = RemoteHeadLink()
        self._bundles = BundleTable(resources)
        # Of what changes here the scheduler has decided all but what is given back, which is told
        # at once: a report of its own would be a call of Ray more for every gang.
        self._reports = Reports(clock, self, self.control, report_every_s, report_every_s)
        self.workers = GangWorkers(self._bundles)
        self.members = JobMembers(
            clock,
            self._bundles,
            self.control,
            CommandClient(forks, files),
            files,
            SessionMemory(),
            token_bytes,
            NoUsageMeter(),
            say,
            directories=self._directories,
            report=self._reports.report_changed,
        )
        self._fork_watch = ForkWatch(clock, forks, say)
        forks.ordered = self._fork_watch.ordered
        self._groups = NodeGroups(
            node_process_id(self.prefix),
            clock,
            self._bundles,
            GroupPlaces(node_id, self._bundles),
            self.workers,
            (self.members, self.workers),
            self.control,
            lambda: None,  # no other node is ever asked for room
            self._reports.report_changed,
            is_port_free,
        )
        self.from_scheduler = MessageTable()
        """What the scheduler may say; what is about tasks and actors is not handled."""
        self._groups.handle_in(self.from_scheduler)
        self.members.handle_in(self.from_scheduler)
        self.from_scheduler.on(Acked, self.control.acked)
        self.from_scheduler.on(ForwardedReply, self.control.replied)
        self.from_scheduler.on(GatherEvents, self._send_events)
        self.from_scheduler.on(GatherState, self._send_state)

    def _send_events(self, message: GatherEvents) -> None:
        self.control.report(EventsReported(message.number, []))

    def _send_state(self, message: GatherState) -> None:
        """Ray has the tasks, objects and workers."""
        self.control.report(StateReported(message.number, StatePart([], 0, 0)))

    # ---- what the agent hands in -------------------------------------------------------------

    def joined(self, scheduler: Peer) -> None:
        """The scheduler knows this node, for the first time or again."""
        self.control.connected(scheduler)
        self._groups.head_joined()
        self._reports.head_joined()

    def from_fork_server(self, message: Any) -> None:
        """A command has begun or ended."""
        self._fork_watch.heard()
        match message:
            case OutputRead():
                self._forks.drained()
            case Began():
                self.members.began(message.process, message.pid)
            case Exited():
                self.members.exited(message.process, *how_it_ended(message))

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        self._bundles.tick(now)
        self._directories.tick(now)
        self._groups.tick(now)
        self.members.tick(now)
        self._fork_watch.tick(now)
        self.workers.tick(now)
        self._groups.settle()
        self._reports.tick(now)

    def on_round(self) -> None:
        """All messages that had come are handled."""
        self._groups.settle()
        self._reports.round()

    # ---- how the node describes itself -------------------------------------------------------

    def report(self) -> NodeReport:
        """See reports.Status: what is free here by our own account."""
        return NodeReport(
            available=self._resources.available(),
            devices=self._resources.devices_left(),
            total=self._resources.total(),
            directories=self._directories.trouble,
        )

    def join(self, host: str, hostname: str, epoch: int) -> Join:
        """What the node says when it joins. `host`: the address of its machine. `epoch`: the one
        under which it was joined before, 0 for none."""
        row = view_row(self._node_id, self.prefix, self._labels, self.report())
        row.host = host
        return Join(row, hostname, epoch, {}, self._bundles.inventory())
