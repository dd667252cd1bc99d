"""The workers that an owner has on lease, by their connections.

A message's connection tells which worker it is about. A worker is gone for good after two events:
the node has reported the end of its process, and its connection, over which results might still
come, has ended.
"""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.owner.peers.connections import Peers
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.owner.tasks.leases import TaskMachine
from phalanx.owner.tasks.records import LeasedWorker, PendingTask, SchedulingClass, TaskBurst
from phalanx.owner.transport import Connection, NodeLink, Outbox
from phalanx.protocol.messages import Unlease
from phalanx.protocol.node_messages import (
    Granted,
    KillWorker,
    LeaseReturned,
    LeaseWanted,
    WorkerDied,
)


class LeasedWorkers:
    """The task machine's leased workers, found by their connections."""

    def __init__(self, machine: TaskMachine, peers: Peers, outbox: Outbox, node: NodeLink) -> None:
        self._machine = machine
        self._peers = peers
        self._outbox = outbox
        self._node = node
        self._by_connection: dict[Connection, list[LeasedWorker]] = {}
        self._functions: dict[Connection, set[bytes]] = {}
        self._unreached_since: dict[int, float] = {}
        """For each class: the time since which its workers cannot be reached and none of them has
        finished a task.
        """

    def __bool__(self) -> bool:
        """Whether there are leased workers."""
        return bool(self._by_connection)

    # ---- leases begin and end ----------------------------------------------------------------

    def want(self, scheduling_class: SchedulingClass, count: int) -> None:
        """Tell the node that the class would use `count` more workers."""
        key = scheduling_class.key
        self._node.send(
            LeaseWanted(
                scheduling_class.number,
                dict(key.resources),
                count,
                key.environment,
                read_strategy(key.strategy),
                key.priority,
                key.queue,
                scheduling_class.granted,
                key.retriable,
            )
        )

    def granted(self, message: Granted, now: float) -> LeasedWorker | None:
        """Add a granted worker. The caller then sends the worker its lease, and pumps its class.

        Returns None if the worker was returned: it is gone, or there is no task for it.
        """
        machine, scheduling_class = self._machine, message.scheduling_class
        if not machine.known(scheduling_class):
            self._node.send(LeaseReturned(message.lease))
            return None
        connection = self._peers.peer(message.worker)
        if connection is None:
            self._node.send(LeaseReturned(message.lease, False))
            machine.unreachable(scheduling_class)
            return None
        worker = machine.granted(scheduling_class, message.lease, message.worker, now)
        if worker is None:
            return None
        worker.connection = connection
        worker.functions_sent = self._functions.setdefault(connection, set())
        self._by_connection.setdefault(connection, []).append(worker)
        return worker

    def give_back(self, worker: LeasedWorker, reusable: bool) -> None:
        """Give back a worker that the owner no longer needs."""
        if worker.connection is not None:
            self._forget(worker)
            self._outbox.post(worker.connection, Unlease())
        self._node.send(LeaseReturned(worker.lease, reusable))

    def _forget(self, worker: LeasedWorker) -> None:
        connection = worker.connection
        if connection is None:
            return
        workers = self._by_connection.get(connection)
        if workers is not None and worker in workers:
            workers.remove(worker)
            if not workers:
                del self._by_connection[connection]

    # ---- what comes over a connection --------------------------------------------------------

    def running(self, connection: Connection, number: int) -> PendingTask | None:
        """Return task `number` if the worker behind this connection has it; otherwise None."""
        for worker in self._by_connection.get(connection, ()):
            task = worker.inflight.get(number)
            if task is not None:
                return task
        return None

    def finished(self, connection: Connection, number: int, now: float) -> PendingTask | None:
        """Remove task `number`, which has ended, from its worker. Returns None if no worker of the
        connection had the task.
        """
        for worker in self._by_connection.get(connection, ()):
            task = self._machine.finished(worker, number, now)
            if task is not None:
                if self._unreached_since:
                    self._unreached_since.pop(worker.scheduling_class.number, None)
                return task
        return None

    def finished_burst(
        self, connection: Connection, first: int, most: int, now: float
    ) -> TaskBurst | None:
        """Remove tasks that have ended from their worker, and return them as a burst: task `first`
        and the tasks that follow it in its burst, at most `most` in all. Returns None if the first
        task is in no burst.
        """
        for worker in self._by_connection.get(connection, ()):
            burst = self._machine.finished_burst(worker, first, most, now)
            if burst is not None:
                if self._unreached_since:
                    self._unreached_since.pop(worker.scheduling_class.number, None)
                return burst
        return None

    def returned(self, connection: Connection, numbers: list[int]) -> list[int]:
        """Handle tasks that a worker returns because it has not started them. Returns the numbers
        of those that were really sent to that worker.
        """
        back = []
        for worker in list(self._by_connection.get(connection, ())):
            mine = [n for n in numbers if n in worker.inflight]
            if mine:
                self._machine.returned(worker, mine)
                back += mine
        return back

    def leaving(self, connection: Connection) -> None:
        """Note that the worker behind this connection will end as planned."""
        for worker in list(self._by_connection.get(connection, ())):
            self._machine.leaving(worker)

    # ---- ends of workers ---------------------------------------------------------------------

    def worker_died(self, message: WorkerDied) -> None:
        """Note that a worker's process has ended. Its results may still arrive."""
        for workers in list(self._by_connection.values()):
            for worker in list(workers):
                if worker.worker == message.worker:
                    worker.died = (message.reason, message.kind)
                    worker.is_stopping = True
                    self._bury(worker)

    def connection_ended(self, connection: Connection, is_node_gone: bool = False) -> None:
        """Note that all results of a worker have come. `is_node_gone`: whether the worker's node is
        gone, so that nobody can report why the worker ended.
        """
        for worker in list(self._by_connection.get(connection, ())):
            worker.ended = worker.is_stopping = True
            if is_node_gone:
                worker.died = worker.died or ("the node is gone", "crashed")
            elif connection.is_dialling and self._note_unreached(worker):
                self._forget(worker)
                self._node.send(LeaseReturned(worker.lease))
                self._machine.unreached(worker, f"not sent: {connection.refusal}")
                continue
            elif worker.died is None and not self._peers.is_here(connection.peer):
                # Perhaps only the connection has ended. The worker must end before others can do
                # its work.
                self._node.send(KillWorker(worker.lease))
            self._bury(worker)
        self._functions.pop(connection, None)

    def _note_unreached(self, worker: LeasedWorker) -> bool:
        """Note that a worker could not be reached. Returns whether its class may ask for another
        worker.

        A process between here and the worker may be paused for a while. If no worker of the class
        could be reached for GIVE_UP_S seconds, the tasks are retried as after the death of a
        worker.
        """
        if worker.died is not None or not worker.inflight:
            return False
        now, number = self._machine.now, worker.scheduling_class.number
        since = self._unreached_since.setdefault(number, now)
        return now - since <= GIVE_UP_S

    def _bury(self, worker: LeasedWorker) -> None:
        if worker.died is None or not worker.ended:
            return
        reason, kind = worker.died
        self._forget(worker)
        self._machine.worker_lost(worker, reason, kind)


def read_strategy(strategy: bytes) -> dict[str, Any]:
    """Return a class's strategy in the form that the node reads."""
    return msgspec.json.decode(strategy) if strategy else {}
