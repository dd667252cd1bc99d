"""The drivers and workers of a node, from introduction to end, and who is told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from phalanx.errors import ActorOutOfMemoryError
from phalanx.model.ids import worker_id_of
from phalanx.node.crash_notes import CrashNotes
from phalanx.node.dispatch import MessageTable
from phalanx.node.drivers import Drivers
from phalanx.node.head_link import HeadLink
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.model import Lease
from phalanx.node.leases.remote import BorrowedLeases
from phalanx.node.metrics import NodeCounts
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import Connections, NodeLinks
from phalanx.node.notes import Note
from phalanx.node.object_store import ObjectStore
from phalanx.node.peers import DRIVER, WORKER, Peer, Peers
from phalanx.node.process_history import ProcessHistory
from phalanx.node.worker_processes import CRASHED, OUT_OF_MEMORY, WorkerProcesses
from phalanx.observe.log_lines import WARNING, LogPiece
from phalanx.protocol.cluster_messages import ActorLost, NodeLogRead, ProcessEnded, ReadNodeLog
from phalanx.protocol.messages import PROTOCOL_VERSION, Hello
from phalanx.protocol.node_messages import PARENT, PREEMPTED, LogLine, WorkerDied
from phalanx.protocol.wire_errors import code_of

HOLD_STARTS_S = 1.0
"""Seconds for which nothing is started after a process could not be."""


class NodeLogs(Protocol):
    """Keeps what workers print and what this node notes. Workers are named as in listings."""

    def append(self, worker: str, line: LogLine) -> None:
        """Keep a line that a worker has printed."""
        ...

    def read(self, worker: str, file: int, offset: int, limit: int) -> LogPiece:
        """Return a part of a worker's log; the node's own if `worker` is empty. See LogPiece."""
        ...


class LocalProcesses:
    """Handles processes from their introduction to their end."""

    def __init__(
        self,
        clock: Callable[[], float],
        connections: Connections,
        peers: Peers,
        links: NodeLinks,
        leases: LeaseMachine,
        workers: WorkerProcesses,
        jobs: KnownJobs,
        drivers: Drivers,
        spilling: Spills,
        borrowed: BorrowedLeases,
        store: ObjectStore,
        head: HeadLink,
        logs: NodeLogs,
        note: Note,
        history: ProcessHistory,
        counts: NodeCounts,
    ) -> None:
        self._clock = clock
        self._connections = connections
        self._peers = peers
        self._links = links
        self._leases = leases
        self._workers = workers
        self._jobs = jobs
        self._drivers = drivers
        self._spilling = spilling
        self._borrowed = borrowed
        self._store = store
        self._head = head
        self._logs = logs
        self._note = note
        self._crashes = CrashNotes(note, clock)
        self._history = history
        self._counts = counts

    def tick(self, now: float) -> None:
        """Write the notes about crashes when it is time."""
        self._crashes.tick(now)

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the head's questions about logs."""
        table.on(ReadNodeLog, self._read_log)

    def _read_log(self, message: ReadNodeLog) -> None:
        piece = self._logs.read(message.worker, message.file, message.offset, message.limit)
        self._head.report(NodeLogRead(message.number, piece))

    # ---- introductions and output ----------------------------------------------------------------

    def introduced(self, connection: Peer, message: Hello) -> None:
        """Take the introduction of a new connection: a worker started here, or another node."""
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
            self._history.began(process, "WORKER", message.pid)
            self._counts.meter.add("phalanx_worker_starts_total", "started")
            self._leases.worker_ready(process, message.pid, self._clock())
            self._drivers.first_worker(process[12:])

    def printed(self, message: LogLine) -> None:
        """Pass a line that a worker has printed to its log file and to its driver."""
        worker = next((w for w in self._leases.workers.all() if w.pid == message.pid), None)
        if worker is None:
            return
        self._logs.append(worker_id_of(worker.worker_id), message)
        job = self._jobs.get(worker.job)
        if job is not None and job.log_to_driver:
            driver = self._peers.get(job.driver)
            if driver is not None:
                driver.post(message)
            elif self._links.is_elsewhere(job.driver):
                self._links.peer(job.driver).post(message)

    # ---- ending ------------------------------------------------------------------------------

    def connection_lost(self, connection: Peer) -> None:
        """Handle the end of a connection to a driver or worker."""
        if not connection.peer or self._peers.get(connection.peer) is not connection:
            return
        self._peers.remove(connection.peer)
        if connection.tag == DRIVER:
            self._history.ended(connection.peer, "EXITED", "its connection to the node has ended")
        self._leases.workers.retire(connection.peer)
        self._process_ended(connection.peer, connection.tag == DRIVER)

    def _process_ended(self, process: bytes, is_driver: bool = False) -> None:
        """Give up everything that a driver or worker has, which has ended or is about to."""
        self._leases.owner_gone(process, self._clock())
        self._spilling.owner_gone(process)
        self._borrowed.owner_gone(process)
        for prefix in self._links.asked():
            self._links.send(prefix, ProcessEnded(process, is_driver))
        self._head.notify(ProcessEnded(process, is_driver))
        self._store.process_gone(process)
        self._counts.process_gone(process)

    def start_failed(self, worker: bytes, reason: str) -> None:
        """Handle a worker whose process could not be started; starts are tried again later."""
        self._counts.meter.add("phalanx_worker_starts_total", "failed")
        now = self._clock()
        if self._leases.hold_starts(now, now + HOLD_STARTS_S):
            self._note(f"a worker is needed, but {reason}", level=WARNING)
        self._ended(worker, *(self._workers.take_reason(worker) or (reason, CRASHED)))

    def exited(self, worker: bytes, how: str, is_parent_killed: bool = False) -> None:
        """Handle the end of a worker's process, after all that it sent has been read."""
        kind = PARENT if is_parent_killed else CRASHED
        self._ended(worker, *(self._workers.take_reason(worker) or (how, kind)))

    def _ended(self, worker: bytes, reason: str, kind: str) -> None:
        is_known = self._leases.workers.get(worker) is not None
        connection = self._peers.remove(worker)
        lease = self._leases.worker_gone(worker, self._clock())
        if connection is not None:
            self._connections.forget(connection)
        self._jobs.worker_gone(worker)
        self._drivers.first_worker(worker[12:])
        if not is_known:
            return
        self._history.ended(worker, kind.upper(), reason)
        self._counts.meter.add("phalanx_worker_deaths_total", kind)
        if kind in (CRASHED, OUT_OF_MEMORY, PARENT):
            self._crashes.crashed(worker_id_of(worker), worker[12:].hex(), reason)
        died = WorkerDied(worker, reason, kind)
        holder = self._report_to_holder(lease, died)
        self._process_ended(worker)
        for process in self._peers.processes():
            if process != holder:
                self._peers.post(process, died)
        self._store.worker_gone(worker, set(self._peers.processes()))

    def _report_to_holder(self, lease: Lease | None, died: WorkerDied) -> bytes:
        """Tell the worker's holder first. Returns the owner that held it; empty if none did."""
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
