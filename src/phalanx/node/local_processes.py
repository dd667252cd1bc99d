"""Handles the introduction and the end of each driver and worker of a node, and reports both to the
parts of the node that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import ActorOutOfMemoryError
from phalanx.node.drivers import Drivers
from phalanx.node.head_link import HeadLink
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Lease
from phalanx.node.node_links import Connections, NodeLinks
from phalanx.node.peers import DRIVER, WORKER, Peer, Peers
from phalanx.node.process_ends import ProcessEnds
from phalanx.node.process_records import ProcessRecords
from phalanx.node.worker_processes import CRASHED, OUT_OF_MEMORY, WorkerProcesses
from phalanx.protocol.actor_messages import ActorLost
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.node_messages import PARENT, PREEMPTED, WorkerDied
from phalanx.protocol.wire_errors import code_of

HOLD_STARTS_S = 1.0
"""Seconds for which no process is started after a start has failed."""


class LocalProcesses:
    """The processes of this node, from their introductions to their ends."""

    def __init__(
        self,
        clock: Callable[[], float],
        connections: Connections,
        head: HeadLink,
        *,
        peers: Peers,
        links: NodeLinks,
        leases: LeaseMachine,
        workers: WorkerProcesses,
        drivers: Drivers,
        ends: ProcessEnds,
        records: ProcessRecords,
    ) -> None:
        self._clock = clock
        self._connections = connections
        self._head = head
        self._peers = peers
        self._links = links
        self._leases = leases
        self._workers = workers
        self._drivers = drivers
        self._ends = ends
        self._records = records

    # ---- introductions  ----------------------------------------------------------------

    def introduced(self, connection: Peer, message: Hello) -> None:
        """Handle an introduction over a new connection. The sender is a worker that was started
        here, or another node.
        """
        process = message.process
        if message.version != PROTOCOL_VERSION or process in self._peers:
            self._connections.lose(connection)
        elif message.kind == "node":
            self._links.introduced(connection, process)
        elif self._leases.workers.get(process) is None:
            self._connections.lose(connection)
        else:
            connection.peer, connection.tag = process, WORKER
            self._peers.add(connection)
            self._records.worker_began(process, message.pid)
            now = self._clock()
            self._leases.worker_ready(process, message.pid, now, message.forked_as)
            self._drivers.first_worker(process[12:])

    # ---- ending ------------------------------------------------------------------------------

    def connection_lost(self, connection: Peer) -> None:
        """Handle the end of a connection to a driver or worker."""
        if not connection.peer or self._peers.get(connection.peer) is not connection:
            return
        self._peers.remove(connection.peer)
        if connection.tag == DRIVER:
            self._records.driver_ended(connection.peer)
        self._leases.workers.retire(connection.peer)
        self._ends.ended(connection.peer, connection.tag == DRIVER)

    def start_failed(self, worker: bytes, reason: str) -> None:
        """Handle a worker whose process could not be started. Later, starts are tried again."""
        now = self._clock()
        self._records.start_failed(reason, self._leases.hold_starts(now, now + HOLD_STARTS_S))
        self._ended(worker, *(self._workers.take_reason(worker) or (reason, CRASHED)))

    def exited(self, worker: bytes, how: str, is_parent_killed: bool = False) -> None:
        """Handle the end of a worker's process. Call this after all its messages have been read.
        `is_parent_killed`: whether the process ended because its parent, the shield, was killed.
        """
        kind = PARENT if is_parent_killed else CRASHED
        self._ended(worker, *(self._workers.take_reason(worker) or (how, kind)))

    def _ended(self, worker: bytes, reason: str, kind: str) -> None:
        is_known = self._leases.workers.get(worker) is not None
        connection = self._peers.remove(worker)
        lease = self._leases.worker_gone(worker, self._clock())
        if connection is not None:
            self._connections.forget(connection)
        self._drivers.worker_gone(worker)
        if not is_known:
            return
        self._records.worker_ended(worker, reason, kind)
        died = WorkerDied(worker, reason, kind)
        holder = self._report_to_holder(lease, died)
        self._ends.ended(worker)
        for process in self._peers.processes():
            if process != holder:
                self._peers.post(process, died)
        self._ends.worker_gone(worker, set(self._peers.processes()))

    def _report_to_holder(self, lease: Lease | None, died: WorkerDied) -> bytes:
        """Report the end of a worker to the lease's owner, before anybody else gets a report.
        Returns the owner; b"" if no lease held the worker.
        """
        if lease is None:
            return b""
        if lease.demand.actor:
            is_preempted = died.kind == PREEMPTED
            code = code_of(ActorOutOfMemoryError) if died.kind == OUT_OF_MEMORY else ""
            actor = lease.demand.actor
            is_parent = died.kind == PARENT
            self._head.notify(
                ActorLost(actor, died.worker, died.reason, is_preempted, code, is_parent)
            )
            return b""
        self._peers.post(lease.demand.owner, died)
        return lease.demand.owner
