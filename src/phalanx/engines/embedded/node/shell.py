"""The node: a thin shell around the machines of leases, bundles and shared memory.

One thread, one epoll loop. It never unpickles anything: what users wrote passes through as bytes.
On a single machine the control store's machines live here as well.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from typing import Any

from phalanx.engines.declared_topology import read_topology
from phalanx.engines.embedded.connection import Connection, listen
from phalanx.engines.embedded.node.config import NodeConfig
from phalanx.engines.embedded.node.exits import NodeExits
from phalanx.engines.embedded.node.loop import NodeLoop
from phalanx.engines.embedded.node.membership import Membership, membership, spilling
from phalanx.engines.embedded.node.requests import OwnRequests
from phalanx.engines.embedded.node.store import NodeStore
from phalanx.model.ids import PREFIX_BYTES, node_prefix
from phalanx.node.actors import NodeActors
from phalanx.node.bundle_table import BundleTable
from phalanx.node.control_link import ControlLink
from phalanx.node.drivers import NodeJobs
from phalanx.node.events import NodeEvents
from phalanx.node.group_places import GroupPlaces
from phalanx.node.groups import NodeGroups
from phalanx.node.job_members import NodeMembers
from phalanx.node.leases import LeaseMachine
from phalanx.node.message_dispatcher import MessageDispatcher
from phalanx.node.other_nodes import OtherNodes
from phalanx.node.requests import NodeRequests
from phalanx.node.workers import WorkerPool, WorkerRecord
from phalanx.objects.names import prefix_of_name
from phalanx.policies.averages import Average
from phalanx.protocol import zygote_messages
from phalanx.protocol.cluster_messages import (
    Happened,
    Prefetch,
)
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.node_messages import (
    Ask,
    Claimed,
    Dropped,
    Events,
    LogLine,
    ReadersTold,
    Sealed,
    Settled,
    Stop,
    Used,
)
from phalanx.protocol.zygote_messages import (
    Began,
    Exited,
    Fork,
    OutputRead,
    SendSignal,
    ZygoteOrder,
)
from phalanx.resources.instances import NodeResources


class NodeShell(MessageDispatcher):
    """Runs the machines' effects: sockets, processes, files."""

    store: NodeStore
    exits: NodeExits
    happened: NodeEvents
    member: Membership
    control: ControlLink

    def __init__(self, config: NodeConfig, zygote_sock: socket.socket) -> None:
        self.config = config
        self.clock = time.monotonic
        self.session = config.session
        self.prefix = node_prefix(config.node_id)
        self.peers = {}
        self._zygote = Connection(zygote_sock, decode=zygote_messages.decode_body)
        listener = listen(self.session.socket_of(b"node"))
        self.loop = NodeLoop(self, listener, self._zygote)
        wiring = read_topology(config.topology) if config.topology else None
        if wiring is not None and len(wiring.numa) < config.resources.get("GPU", 0):
            wiring = None  # of fewer devices than this node declares
        self.resources = NodeResources(
            config.resources, frozenset(config.unit_resources), topology=wiring
        )
        self.jobs = NodeJobs(self)
        self.exits = NodeExits(self)
        self.actors = NodeActors(self)
        self.groups = NodeGroups(self)
        self.members = NodeMembers(self)
        self.others = OtherNodes(self)
        self.store = NodeStore(self)
        self.bundles = BundleTable(self.resources)
        places = GroupPlaces(config.node_id, self.bundles)
        self.spilling = spilling(self, places)
        pool = WorkerPool(max(1, int(config.resources.get("CPU", 1))), self.jobs.new_process)
        self.leases = LeaseMachine(
            self.resources, self, pool, config.node_id, config.labels, places, self.spilling
        )
        self.happened = NodeEvents(self)
        self.bandwidth = Average()
        """Of objects that came from other nodes, in bytes a second."""
        self.member = membership(self)
        self.control = self.member.link
        own = OwnRequests(
            config.node_id, config.labels, self.jobs, self.exits, self.store, self.happened
        )
        self._requests = NodeRequests(own.handlers, self.control, self.member, config.address)

    def serve(self, driver: Connection | None) -> None:
        """Until told to stop, or the driver that it lives with is gone."""
        if driver is not None:
            self.loop.watch(driver)
        if self.config.parent_fd >= 0:
            self.loop.call_when_readable(self.config.parent_fd, self.stop)
        self.member.start()
        self.loop.serve()
        self.member.stop()

    def stop(self) -> None:
        """End after this round."""
        self.loop.is_stopping = True

    # ---- time and ends -----------------------------------------------------------------------

    def on_lost(self, connection: Connection) -> None:
        """A connection has ended."""
        if connection is self._zygote:
            self.loop.is_stopping = True
        elif self.member.is_lost(connection):
            return
        elif connection.tag == "node":
            self.others.connection_lost(connection)
        elif connection.peer and self.peers.get(connection.peer) is connection:
            del self.peers[connection.peer]
            if connection.tag == "driver":
                self._driver_gone(connection.peer)
            elif connection.tag == "worker":
                self.process_gone(connection.peer, time.monotonic())

    def _driver_gone(self, driver: bytes) -> None:
        self.process_gone(driver, time.monotonic(), is_driver=True)
        if self.config.lives_with_driver:
            self.loop.is_stopping = True

    def on_tick(self, now: float) -> None:
        """Time has passed."""
        super().on_tick(now)
        self.exits.relieve_memory(now)

    def note(self, text: str) -> None:
        """Something that a person who reads the node's log wants to know."""
        print(f"phalanx: {text}", file=sys.stderr, flush=True)

    # ---- messages ----------------------------------------------------------------------------

    def on_message(self, connection: Connection, message: Any) -> None:
        """A message came."""
        if connection is self._zygote:
            self._from_zygote(message)
        elif connection.tag == "node":
            self.others.on_message(connection, message)
        elif self.member.is_control(connection):
            self.member.on_message(connection, message)
        elif not connection.peer and not isinstance(message, Hello | Ask):
            self.loop.lose(connection)  # a stranger begins with one of these
        else:
            self.on_process_message(connection, message)

    def _from_zygote(self, message: Any) -> None:
        match message:
            case OutputRead():
                self.exits.drained()
            case Began():
                self.members.runs(message.process, message.pid)
            case Exited():
                self.exits.worker_exited(message, time.monotonic())
            case LogLine():
                self.exits.log(message)

    def on_process_message(  # noqa: PLR0912
        self, connection: Any, message: Any
    ) -> None:
        """A driver or worker says something; those of other nodes through theirs."""
        # One line a message: with the switchboard's, the node's table of what it understands.
        now = time.monotonic()
        peer: bytes = connection.peer
        if self.on_owner_message(peer, message, now):
            return
        match message:
            case Hello():
                self._hello(connection, message, now)
            case Ask():
                self._requests.answer(connection, message)
            case Sealed():
                self.store.sealed(message.name, message.size, peer)
            case Claimed():
                if not self.others.pass_on(prefix_of_name(message.name), peer, message):
                    self.store.claimed(message.name, peer)
            case Settled():
                if not self.others.pass_on(message.worker, peer, message):
                    self.store.settled(message.worker, peer)
            case Used():
                self.store.used(message.name, peer)
            case ReadersTold():
                self.store.readers_told(message.prefix, peer)
            case Dropped():
                if self.others.pass_on(prefix_of_name(message.name), peer, message):
                    self.store.copy_dropped(message.name)
                else:
                    self.store.dropped(message.name, message.size, peer)
            case Prefetch():
                self.store.prefetch(message)
            case Happened():
                self.happened.ring.extend(message.rows)
            case Events():
                self.happened.runs += message.rows
            case Stop() if connection.tag == "driver":
                self.loop.lose(connection)
            case _:
                self.loop.lose(connection)

    def _hello(self, connection: Connection, message: Hello, now: float) -> None:
        if message.version != PROTOCOL_VERSION or message.process in self.peers:
            self.loop.lose(connection)
            return
        if message.kind == "node":
            connection.peer, connection.tag = message.process, "node"
            self.others.introduced(connection, message.process[:PREFIX_BYTES])
            return
        if self.leases.workers.get(message.process) is None:
            self.loop.lose(connection)
            return
        connection.peer = message.process
        connection.tag = message.kind
        self.peers[message.process] = connection
        self.leases.worker_ready(message.process, message.pid, now)
        self.jobs.end_warming(message.process[12:])

    def local_peers(self) -> list[Connection]:
        """Connections to this node's own processes."""
        return [c for c in self.peers.values() if isinstance(c, Connection)]

    # ---- effects of the lease machine and of spilling ----------------------------------------

    def ask_zygote(self, order: ZygoteOrder) -> None:
        """See BundleHost."""
        self._zygote.post(order)

    def start_worker(self, worker: WorkerRecord) -> None:
        """Fork a worker."""
        worker.is_started = True
        variables = self.jobs.environments.get(worker.environment, {})
        self.ask_zygote(Fork(worker.worker_id, variables))

    def warn(self, worker_id: bytes) -> None:
        """Ask a worker's process to end."""
        self.ask_zygote(SendSignal(worker_id, int(signal.SIGTERM)))

    def kill(self, worker_id: bytes) -> None:
        """End a worker's process at once."""
        self.ask_zygote(SendSignal(worker_id, int(signal.SIGKILL)))
