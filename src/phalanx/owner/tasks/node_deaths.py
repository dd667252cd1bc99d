"""Decides about tasks whose workers were lost with their nodes. A task under which two nodes died
is not retried.

An owner first loses the connection to the node, and with it the worker. Later the head reports
whether that node is dead, and why. After a first loss, the task runs again immediately. After a
second loss, the task waits for the head's reports, because it might take another node down.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.node_deaths import (
    KILLED,
    MOST,
    ORDERLY,
    is_held_against,
    why_not_again,
    why_stopped,
)
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.owner.tasks.records import PendingTask

KEPT = 1_000
"""The number of dead nodes that are remembered."""


class NodeDeaths:
    """The nodes that were lost while they ran tasks of one process, and whether they died."""

    def __init__(self, decided: Callable[[PendingTask, str], None]) -> None:
        """`decided` is called with a waiting task, and with the reason why it is over; "" if the
        task is tried again.
        """
        self._decided = decided
        self._known: dict[bytes, tuple[str, str]] = {}
        """(kind of end, reason) of each lost node whose fate is known, and of each worker whose
        task has killed its parent.
        """
        self._waiting: dict[int, PendingTask] = {}
        self._until: dict[int, float] = {}

    def why_over(self, task: PendingTask, worker: bytes) -> str:
        """Return why a task whose worker was lost with its node must end; "" if the task need not
        end.
        """
        node = worker[:PREFIX_BYTES]
        if node not in task.went_with:
            task.went_with = (*task.went_with, node)
        return self._why_over(task)

    def parent_killed(self, task: PendingTask, worker: bytes, reason: str) -> str:
        """Note that a task has killed its worker's parent. Returns why the task is over; "" if the
        task may run again.
        """
        self._known[worker] = (KILLED, reason)
        task.went_with = (*task.went_with, worker)
        self._forget_oldest()
        is_over = len(self._deaths(task)) >= MOST
        return why_stopped(f"task {task.template.name}", reason) if is_over else ""

    def hold_back(self, task: PendingTask) -> bool:
        """If a task may have to end, hold it back until it is known whether its lost nodes are
        dead; `decided` is called then. Returns whether the task is held back.
        """
        if not self._may_be_over(task):
            return False
        self._waiting[task.number] = task
        return True

    def _deaths(self, task: PendingTask) -> list[str]:
        """Return the reason of each death of a node that counts against the task."""
        has_no_limit = task.template.max_retries < 0
        known = [self._known[node] for node in task.went_with if node in self._known]
        return [why for death, why in known if is_held_against(death, has_no_limit=has_no_limit)]

    def _why_over(self, task: PendingTask) -> str:
        deaths = self._deaths(task)
        return (
            why_not_again(f"task {task.template.name}", deaths[-1]) if len(deaths) >= MOST else ""
        )

    def _may_be_over(self, task: PendingTask) -> bool:
        unheard = sum(node not in self._known for node in task.went_with)
        return len(self._deaths(task)) + unheard >= MOST

    def node_died(self, node: bytes, death: str, why: str) -> None:
        """Note that the head has declared a node dead."""
        self._known.pop(node, None)
        self._known[node] = (death, why)
        self._forget_oldest()
        for task in [task for task in self._waiting.values() if node in task.went_with]:
            reason = self._why_over(task)
            if reason or not self._may_be_over(task):
                del self._waiting[task.number]
                self._until.pop(task.number, None)
                self._decided(task, reason)

    def _forget_oldest(self) -> None:
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def tick(self, now: float) -> None:
        """Count a lost node as living if the head has had enough time to declare it dead and has
        not done so.
        """
        for number in list(self._waiting):
            task = self._waiting.get(number)
            if task is None:  # decided since the loop began, together with another task
                continue
            until = self._until.setdefault(number, now + GIVE_UP_S)
            if now >= until:
                for node in task.went_with:
                    if node not in self._known:
                        self.node_died(node, ORDERLY, "")
