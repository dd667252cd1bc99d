"""A list of moves that are kept together or taken back together.

`allocate` takes idle room of a node, `pipeline` takes room that is still being freed, and `evict`
frees room. `hold` sets room aside for a task that is leaving another node. `rollback` restores the
cluster exactly, because every move uses whole numbers and has an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.arguments import flag
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.plan import Eviction

if TYPE_CHECKING:
    from phalanx.scheduler.cycle.session import Session


class Arrival:
    """Tasks of one class that were placed on nodes. `status` is ALLOCATED or PIPELINED."""

    __slots__ = ("eq_class", "nodes", "status", "tasks")

    def __init__(
        self, eq_class: EquivalenceClass, tasks: Sequence[int], nodes: Sequence[int], status: int
    ):
        self.eq_class = eq_class
        self.tasks = list(tasks)
        self.nodes = list(nodes)
        self.status = status


class Departure:
    """A task that was evicted, and the status that it had before."""

    __slots__ = ("reason", "status", "task")

    def __init__(self, task: int, status: int, reason: str):
        self.task = task
        self.status = status
        self.reason = reason


class Hold:
    """Room on a node that was set aside for a task that is leaving another node."""

    __slots__ = ("node", "task")

    def __init__(self, task: int, node: int):
        self.task = task
        self.node = node


Move = Arrival | Departure | Hold


class Statement:
    """The moves made so far. `commit` adds them to the plan, and `discard` takes all of them
    back.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.moves: list[Move] = []

    def __len__(self) -> int:
        return len(self.moves)

    def allocate(
        self, eq_class: EquivalenceClass, tasks: Sequence[int], nodes: Sequence[int]
    ) -> None:
        self._place(Arrival(eq_class, tasks, nodes, j.ALLOCATED))

    def pipeline(self, task: int, node: int) -> None:
        eq_class = self._session.cluster.eq_class[task]
        self._place(Arrival(eq_class, [task], [node], j.PIPELINED))

    def evict(self, task: int, reason: str) -> None:
        cluster = self._session.cluster
        move = Departure(task, cluster.status[task], reason)
        self.moves.append(move)
        cluster.evict(task)
        self._tell(task, cluster.node_of[task], -1)

    def hold(self, task: int, node: int) -> None:
        self.moves.append(Hold(task, node))
        self._session.cluster.hold(task, node)
        self._tell(task, node, 1)

    def checkpoint(self) -> int:
        """Return a mark for `rollback`."""
        return len(self.moves)

    def rollback(self, mark: int = 0) -> None:
        """Take back all moves since the mark, in reverse order."""
        session = self._session
        while len(self.moves) > mark:
            move = self.moves.pop()
            if isinstance(move, Arrival):
                session.cluster.unplace(move.eq_class, move.tasks, move.nodes)
                job = session.job(move.tasks[0])
                session.changed(job, move.eq_class, move.tasks, move.nodes, -1)
            elif isinstance(move, Hold):
                session.cluster.hold(move.task, move.node, -1)
                self._tell(move.task, move.node, -1)
            else:
                session.cluster.unevict(move.task, move.status)
                self._tell(move.task, session.cluster.node_of[move.task], 1)

    def discard(self) -> None:
        self.rollback(0)

    def save(self) -> list[Move]:
        """Take all moves back, and return them for a later `recover`."""
        moves = list(self.moves)
        self.discard()
        return moves

    def recover(self, moves: Sequence[Move]) -> None:
        """Make saved moves again."""
        for move in moves:
            if isinstance(move, Arrival):
                self._place(move)
            elif isinstance(move, Hold):
                self.hold(move.task, move.node)
            else:
                self.evict(move.task, move.reason)

    def merge(self, other: Statement) -> None:
        """Add the moves of another statement."""
        self.moves.extend(other.moves)
        other.moves = []

    def has_evictions(self) -> bool:
        return any(isinstance(m, Departure) for m in self.moves)

    def commit(self) -> None:
        """Add the evictions and allocations to the plan. Promises last only for this cycle."""
        session = self._session
        cluster = session.cluster
        claimants = self._claimants()
        for move, claimant in zip(self.moves, claimants, strict=True):
            if isinstance(move, Departure):
                session.evictions.setdefault(move.task, self._eviction(move, claimant))
            elif isinstance(move, Hold):
                session.homes[move.task] = move.node
            elif move.status == j.ALLOCATED:
                session.binds.update(zip(move.tasks, move.nodes, strict=True))
                cluster.bind(move.tasks)
        self.moves = []

    def _claimants(self) -> list[str]:
        """Return, for each move, the podgroup for which the move is made. That is the podgroup of
        the next arrival in the list of moves; "" if none follows.
        """
        found: list[str] = []
        claimant = ""
        for move in reversed(self.moves):
            if isinstance(move, Arrival):
                claimant = self._session.job(move.tasks[0]).uid
            found.append(claimant)
        found.reverse()
        return found

    def _eviction(self, move: Departure, claimant: str) -> Eviction:
        """Return the eviction for the plan. It counts as a retry of the job unless the action's
        argument `chargeRetries` is false.
        """
        session = self._session
        return Eviction(
            task=session.cluster.task_uid[move.task],
            reason=move.reason,
            counts_as_retry=flag(session.config.arguments_of(move.reason), "chargeRetries", True),
            claimant=claimant,
        )

    def _place(self, move: Arrival) -> None:
        session = self._session
        self.moves.append(move)
        session.cluster.place(move.eq_class, move.tasks, move.nodes, move.status)
        job = session.job(move.tasks[0])
        session.changed(job, move.eq_class, move.tasks, move.nodes, 1)

    def _tell(self, task: int, node: int, sign: int) -> None:
        session = self._session
        if session.cluster.job_of[task] >= 0:
            eq_class = session.cluster.eq_class[task]
            session.changed(session.job(task), eq_class, [task], [node], sign)
