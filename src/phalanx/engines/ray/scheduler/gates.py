"""Ordinary tasks that wait for their queue's turn before Ray is given them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from phalanx.head.gangs.member_states import HOLDING
from phalanx.head.queues.task_admission import Batch, GateTable, Share
from phalanx.protocol.requests.ray import GetBatchSize, LeaveScheduler, PassGate, ReportBatches
from phalanx.protocol.requests.request import LATER, Asker, Handler, Later, Request

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane

MOST_IN_BATCH = 16
SILENT_S = 15.0
"""An owner that has said nothing for so long has ended, and its tasks with it."""
LOOK_EVERY_S = 0.1
"""How old what is known of the cluster's capacity and of queues may be."""


class Gates:
    """Answers requests about batches. Everything here runs in the scheduler's thread."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._table = GateTable()
        self._shut: dict[bytes, list[Asker[None]]] = {}
        """Who waits at each gate that is not open."""
        self._heard: dict[bytes, float] = {}
        self._look_at = 0.0

    def entries(self) -> list[tuple[type[Request[Any]], Handler]]:
        """For RequestHandlers."""
        return [
            PassGate.handled_by(self._pass),
            GetBatchSize.handled_by(self._batch_size),
            ReportBatches.handled_by(self._report),
            LeaveScheduler.handled_by(self._leave),
        ]

    def _hear(self, owner: bytes) -> float:
        """A process lives; the time."""
        now = time.monotonic()
        self._heard[owner] = now
        self._table.advance(now)
        return now

    def tick(self, now: float) -> None:
        """Time has passed."""
        self._table.advance(now)
        for owner in [one for one, heard in self._heard.items() if now > heard + SILENT_S]:
            self._gone(owner, now)
        if self._shut:
            self._open(now)

    def _gone(self, owner: bytes, now: float) -> None:
        """A program has ended: its tasks and its gangs go."""
        del self._heard[owner]
        self._table.owner_gone(owner)
        self._control.process_ended(owner, True, now)

    def _pass(self, asker: Asker[None], request: PassGate) -> Later:
        now = self._hear(asker.process)
        self._control.batch.queues.admit(request.queue)
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
        self._shut.setdefault(request.ticket, []).append(asker)
        self._open(now)
        return LATER

    def _report(self, asker: Asker[None], request: ReportBatches) -> None:
        now = self._hear(asker.process)
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
        self._open(now)

    def _leave(self, asker: Asker[None], request: LeaveScheduler) -> None:
        now = self._hear(asker.process)
        self._gone(asker.process, now)
        self._open(now)

    def _batch_size(self, asker: Asker[int], request: GetBatchSize) -> int:
        self._look(self._hear(asker.process))
        limits = {**self._table.capacity, **self._control.batch.queues.capability(request.queue)}
        fits = [limits[name] / amount for name, amount in request.needs.items() if limits.get(name)]
        return max(1, min(MOST_IN_BATCH, int(min(fits, default=MOST_IN_BATCH))))

    def _open(self, now: float) -> None:
        if not self._shut:
            return
        self._look(now)
        for ticket in self._table.open_due():
            for asker in self._shut.pop(ticket, ()):
                asker.reply(None)

    def _look(self, now: float) -> None:
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        batch = self._control.batch
        capacity: dict[str, float] = {}
        for record in self._control.nodes.living():
            for name, amount in record.totals.items():
                capacity[name] = capacity.get(name, 0.0) + amount
        for gang in batch.registry.active.values():
            for index in gang.within(HOLDING):
                for name, amount in gang.members[index].need.items():
                    capacity[name] = capacity.get(name, 0.0) - amount
        self._table.capacity = capacity
        self._table.shares = {
            queue.name: Share(
                weight=float(queue.weight), capability=batch.queues.capability(queue.name)
            )
            for queue in batch.queues.rows()
        }
