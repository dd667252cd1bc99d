"""The output of workers. The output is kept in the workers' log files, and the workers' drivers
show it.
"""

from __future__ import annotations

from typing import Protocol

from phalanx.model.ids import worker_id_of
from phalanx.node.dispatch import MessageTable
from phalanx.node.head_link import HeadLink
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.node_links import NodeLinks
from phalanx.node.peers import Peers
from phalanx.node.workers import WorkerPool
from phalanx.observe.log_lines import LogPiece
from phalanx.protocol.node_messages import LogLine
from phalanx.protocol.report_messages import NodeLogRead, ReadNodeLog


class NodeLogs(Protocol):
    """Keeps the output of workers and this node's notes. Workers are named as in listings."""

    def append(self, worker: str, line: LogLine) -> None:
        """Keep a line that a worker has printed."""
        ...

    def read(self, worker: str, file: int, offset: int, limit: int) -> LogPiece:
        """Return a part of a worker's log; if `worker` is empty, of the node's own log. See
        LogPiece.
        """
        ...


class WorkerOutput:
    """Passes on the output of a node's workers, and reads their logs for the head."""

    def __init__(
        self,
        logs: NodeLogs,
        head: HeadLink,
        *,
        workers: WorkerPool,
        jobs: KnownJobs,
        peers: Peers,
        links: NodeLinks,
    ) -> None:
        self._logs = logs
        self._head = head
        self._workers = workers
        self._jobs = jobs
        self._peers = peers
        self._links = links

    def handle_in(self, table: MessageTable) -> None:
        """Register the handler for the head's requests about logs."""
        table.on(ReadNodeLog, self._read_log)

    def _read_log(self, message: ReadNodeLog) -> None:
        piece = self._logs.read(message.worker, message.file, message.offset, message.limit)
        self._head.report(NodeLogRead(message.number, piece))

    def printed(self, message: LogLine) -> None:
        """Pass a line that a worker has printed to the worker's log file and to its driver."""
        workers = self._workers.all()
        worker = next((w for w in workers if message.pid in (w.pid, w.forked_as)), None)
        if worker is None:
            return
        message.pid = worker.pid
        self._logs.append(worker_id_of(worker.worker_id), message)
        job = self._jobs.get(worker.job)
        if job is not None and job.log_to_driver:
            driver = self._peers.get(job.driver)
            if driver is not None:
                driver.post(message)
            elif self._links.is_elsewhere(job.driver):
                self._links.peer(job.driver).post(message)
