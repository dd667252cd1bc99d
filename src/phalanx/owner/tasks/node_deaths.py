"""Tasks whose workers went with their nodes: what two nodes died under is not tried again.

An owner hears first that its worker is gone with the connection to its node, and from the head,
later, whether that node is dead and of what. The first time the task runs again at once. After that
it waits for the head's word, as it may take another node along.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.node_deaths import MOST, ORDERLY, is_held_against, why_not_again
from phalanx.owner.peers.redialling import GIVE_UP_S
from phalanx.owner.tasks.records import PendingTask

KEPT = 1_000


class NodeDeaths:
    """The nodes that went under tasks of one process, and what became of them."""

    def __init__(self, decided: Callable[[PendingTask, str], None]) -> None:
        """`decided`: what waited is tried again, or (with the reason) is over."""
        self._decided = decided
        self._known: dict[bytes, tuple[str, str]] = {}
        """(how it ended, why) of each node that is known to be dead, and of those that nothing was
        heard of."""
        self._waiting: dict[int, PendingTask] = {}
        self._until: dict[int, float] = {}

    def why_over(self, task: PendingTask, worker: bytes) -> str:
        """The task's worker went with the connection to its node: why the task is over; empty where
        it is not, as far as is known."""
        node = worker[:PREFIX_BYTES]
        if node not in task.went_with:
            task.went_with = (*task.went_with, node)
        return self._why_over(task)

    def must_wait(self, task: PendingTask) -> bool:
        """Whether the task is to wait until it is known what became of these nodes. `decided` is
        called then."""
        if not self._may_be_over(task):
            return False
        self._waiting[task.number] = task
        return True

    def _deaths(self, task: PendingTask) -> list[str]:
        """Why the nodes died whose deaths are held against it."""
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
        """The head has given a node up."""
        self._known.pop(node, None)
        self._known[node] = (death, why)
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        for task in [task for task in self._waiting.values() if node in task.went_with]:
            reason = self._why_over(task)
            if reason or not self._may_be_over(task):
                del self._waiting[task.number]
                self._until.pop(task.number, None)
                self._decided(task, reason)

    def tick(self, now: float) -> None:
        """Time has passed: a node that the head has not given up by now lives."""
        for number in list(self._waiting):
            task = self._waiting.get(number)
            if task is not None and self._until.setdefault(number, now + GIVE_UP_S) <= now:
                for node in task.went_with:
                    if node not in self._known:
                        self.node_died(node, ORDERLY, "")
