"""Requests about batches of tasks. A batch's request is answered when `AdmissionTable` admits the
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from phalanx.head.queues.task_admission import AdmissionTable, Batch, Share
from phalanx.model.options import LARGEST_NUMBER, check_amounts
from phalanx.protocol.requests.ray import AdmitBatch, GetBatchSize, LeaveScheduler, ReportBatches
from phalanx.protocol.requests.request import LATER, Asker, Entry, Later

if TYPE_CHECKING:
    from phalanx.head.queues.control import Queues

MAX_IN_BATCH = 16
SILENT_S = 15.0
"""Seconds without a message after which an owner counts as ended. Its tasks then count as ended,
too.
"""
LOOK_EVERY_S = 0.1
"""Seconds for which the last known capacity of the cluster and of its queues is reused."""


class TasksCluster(Protocol):
    """The parts of the head that BatchRequests uses."""

    @property
    def queues(self) -> Queues:
        """The cluster's queues."""
        ...

    def outside_gangs(self) -> Mapping[str, float]:
        """The cluster's total of each resource, without the amounts that members of gangs hold."""
        ...

    def process_ended(self, process: bytes, is_driver: bool, now: float) -> None:
        """Note that a process has ended, and remove everything that it owns."""
        ...


class BatchRequests:
    """Handles requests about batches. All methods run in the scheduler's thread."""

    def __init__(self, cluster: TasksCluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._table = AdmissionTable()
        self._waiting: dict[bytes, list[Asker[None]]] = {}
        """For each batch: the askers that wait for its admission."""
        self._heard: dict[bytes, float] = {}
        """The time at which each owner last sent a message."""
        self._look_at = 0.0

    def entries(self) -> list[Entry]:
        """Return the handlers of this class, for RequestHandlers."""
        return [
            AdmitBatch.handled_by(self._ask),
            GetBatchSize.handled_by(self._batch_size),
            ReportBatches.handled_by(self._report),
            LeaveScheduler.handled_by(self._leave),
        ]

    def _hear(self, owner: bytes) -> float:
        """Note that a process has sent a message. Returns the present time."""
        now = self._clock()
        self._heard[owner] = now
        self._table.advance(now)
        return now

    def tick(self, now: float) -> None:
        self._table.advance(now)
        for owner in [one for one, heard in self._heard.items() if now > heard + SILENT_S]:
            self._gone(owner, now)
        if self._waiting:
            self._admit(now)

    def _gone(self, owner: bytes, now: float) -> None:
        del self._heard[owner]
        self._table.owner_gone(owner)
        self._cluster.process_ended(owner, True, now)

    def _ask(self, asker: Asker[None], request: AdmitBatch) -> Later:
        now = self._hear(asker.process)
        _check(request.needs, request.size)
        self._cluster.queues.require_open(request.queue)
        self._table.ask(
            Batch(
                ticket=request.ticket,
                owner=asker.process,
                queue=request.queue,
                priority=request.priority,
                needs=request.needs,
                size=request.size,
            )
        )
        self._waiting.setdefault(request.ticket, []).append(asker)
        self._admit(now)
        return LATER

    def _report(self, asker: Asker[None], request: ReportBatches) -> None:
        now = self._hear(asker.process)
        _check({}, *request.sized.values(), *request.done.values())
        for one in request.running:
            _check(one.needs, one.left)
        for one in request.running:
            self._table.restore(
                Batch(
                    ticket=one.ticket,
                    owner=asker.process,
                    queue=one.queue,
                    priority=one.priority,
                    needs=one.needs,
                    size=one.left,
                )
            )
        for ticket, size in request.sized.items():
            self._table.sized(ticket, size)
        for ticket, count in request.done.items():
            self._table.done(ticket, count)
        self._admit(now)

    def _leave(self, asker: Asker[None], request: LeaveScheduler) -> None:
        now = self._hear(asker.process)
        self._gone(asker.process, now)
        self._admit(now)

    def _batch_size(self, asker: Asker[int], request: GetBatchSize) -> int:
        self._look(self._hear(asker.process))
        _check(request.needs)
        limits = {**self._table.capacity, **self._cluster.queues.capability(request.queue)}
        fits = [
            limits[name] / amount
            for name, amount in request.needs.items()
            if amount and limits.get(name)
        ]
        return max(1, min(MAX_IN_BATCH, int(min(fits, default=MAX_IN_BATCH))))

    def _admit(self, now: float) -> None:
        if not self._waiting:
            return
        self._look(now)
        for ticket in self._table.admit_due():
            for asker in self._waiting.pop(ticket, ()):
                asker.reply(None)

    def _look(self, now: float) -> None:
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        queues = self._cluster.queues
        self._table.capacity = self._cluster.outside_gangs()
        self._table.shares = {
            queue.name: Share(weight=float(queue.weight), capability=queues.capability(queue.name))
            for queue in queues.rows()
        }


def _check(needs: Mapping[str, float], *counts: int) -> None:
    """Raise ValueError for invalid amounts, and for invalid numbers of tasks."""
    check_amounts(needs)
    for count in counts:
        if not 0 <= count <= LARGEST_NUMBER:
            raise ValueError(f"the number of tasks must be 0 to {LARGEST_NUMBER}, not {count}")
