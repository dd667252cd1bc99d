"""Ordinary tasks that wait for their queue's turn before Ray is given them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from phalanx.errors import PhalanxError
from phalanx.head.gangs.member_states import HOLDING
from phalanx.head.queues.task_admission import Batch, GateTable, Share

if TYPE_CHECKING:
    from phalanx.head.control_plane import ControlPlane

MOST_IN_BATCH = 16
SILENT_S = 15.0
"""An owner that has said nothing for so long has ended, and its tasks with it."""
LOOK_EVERY_S = 0.1
"""How old what is known of the cluster's capacity and of queues may be."""

Answered = Callable[[tuple[Any, tuple[str, str] | None]], None]


class Gates:
    """Answers `gate.*`. Everything here runs in the scheduler's thread."""

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._table = GateTable()
        self._shut: dict[bytes, list[Answered]] = {}
        """Who waits at each gate that is not open."""
        self._heard: dict[bytes, float] = {}
        self._look_at = 0.0

    def answer(self, origin: bytes, method: str, args: dict[str, Any], answered: Answered) -> None:
        """Answer a question of a process, now or once the gate opens."""
        now = time.monotonic()
        self._heard[origin] = now
        self._table.advance(now)
        try:
            match method:
                case "gate.pass":
                    self._pass(origin, args, answered)
                case "gate.batch":
                    answered((self._batch_size(**args), None))
                case "gate.told":
                    self._told(origin, **args)
                    answered((None, None))
                case "gate.leave":
                    self._gone(origin, now)
                    answered((None, None))
                case _:
                    raise ValueError(f"gates know no request {method!r}")
        except (PhalanxError, ValueError, TypeError) as error:
            answered((None, (type(error).__name__, str(error))))
        self._open(now)

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

    def _pass(self, owner: bytes, args: dict[str, Any], answered: Answered) -> None:
        ticket: bytes = args["ticket"]
        queue, needs = args["queue"], args["needs"]
        self._control.batch.queues.admit(queue)
        self._table.ask(
            Batch(
                ticket=ticket,
                owner=owner,
                queue=queue,
                priority=args["priority"],
                needs=needs,
                size=args["size"],
            )
        )
        self._shut.setdefault(ticket, []).append(answered)

    def _told(
        self,
        owner: bytes,
        sized: Mapping[bytes, int],
        done: Mapping[bytes, int],
        running: list[tuple[bytes, str, int, dict[str, float], int]],
    ) -> None:
        """`running` (ticket, queue, priority, needs, tasks left): let through before this
        scheduler was there."""
        for ticket, queue, priority, needs, left in running:
            self._table.restore(
                Batch(
                    ticket=ticket,
                    owner=owner,
                    queue=queue,
                    priority=priority,
                    needs=needs,
                    size=left,
                )
            )
        for ticket, size in sized.items():
            self._table.sized(ticket, size)
        for ticket, count in done.items():
            self._table.done(ticket, count)

    def _batch_size(self, queue: str, needs: dict[str, float]) -> int:
        """How many equal tasks should pass one gate: no more than run side by side."""
        self._look(time.monotonic())
        limits = {**self._table.capacity, **self._control.batch.queues.capability(queue)}
        fits = [limits[name] / amount for name, amount in needs.items() if limits.get(name)]
        return max(1, min(MOST_IN_BATCH, int(min(fits, default=MOST_IN_BATCH))))

    def _open(self, now: float) -> None:
        if not self._shut:
            return
        self._look(now)
        for ticket in self._table.open_due():
            for answered in self._shut.pop(ticket, ()):
                answered((None, None))

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
            queue["name"]: Share(
                weight=float(queue["weight"]), capability=batch.queues.capability(queue["name"])
            )
            for queue in batch.queues.rows()
        }
