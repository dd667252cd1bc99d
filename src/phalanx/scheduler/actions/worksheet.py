"""The work left to place for a job: its parts in order, each with its tasks in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.ordering import Heap
from phalanx.scheduler.cycle.session import Session


class Tasks:
    """The tasks of one part, in the order in which they are tried. A position marks the next task.

    The tasks are sorted when a task is first taken or peeked at, because most waiting gangs are
    ruled out before that.
    """

    __slots__ = ("_at", "_listed", "_order")

    def __init__(
        self, listed: list[int], order: Callable[[list[int]], list[int]] | None, at: int = 0
    ) -> None:
        self._listed = listed
        self._order = order
        self._at = at

    def __len__(self) -> int:
        return len(self._listed) - self._at

    def any(self) -> int:
        """Return one of the tasks that have not been tried yet, whichever it is."""
        return self._listed[self._at]

    def are_alike(self, eq_class_of: list[EquivalenceClass]) -> bool:
        """Whether all tasks that have not been tried yet are of one class."""
        eq_class = eq_class_of[self.any()]
        return all(eq_class_of[t] is eq_class for t in self._listed[self._at :])

    def peek(self) -> int:
        return self._ordered()[self._at]

    def take(self, count: int) -> list[int]:
        taken = self._ordered()[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def drop(self) -> None:
        """Drop all tasks that have not been tried yet."""
        self._at = len(self._listed)

    def run_length(self, eq_class_of: list[EquivalenceClass]) -> int:
        """Return how many tasks, from the next one on and without a gap, are of one class."""
        listed, at = self._ordered(), self._at
        eq_class = eq_class_of[listed[at]]
        end = at + 1
        while end < len(listed) and eq_class_of[listed[end]] is eq_class:
            end += 1
        return end - at

    def rest(self) -> list[int]:
        return self._ordered()[self._at :]

    def copy(self) -> Tasks:
        return Tasks(self._listed, self._order, self._at)

    def _ordered(self) -> list[int]:
        if self._order is not None:
            self._listed, self._order = self._order(self._listed), None
        return self._listed


class Worksheet:
    """The parts of a job that have tasks to place. Parts that are needed for the minimum number of
    subgroups come first.
    """

    __slots__ = ("parts", "tasks")

    def __init__(self, parts: Heap[SubJob], tasks: dict[str, Tasks]) -> None:
        self.parts = parts
        self.tasks = tasks

    def __len__(self) -> int:
        return len(self.parts)

    def copy(self) -> Worksheet:
        return Worksheet(self.parts.copy(), {k: t.copy() for k, t in self.tasks.items()})

    def take_over(self, other: Worksheet) -> None:
        self.parts, self.tasks = other.parts, other.tasks


def needed_first(session: Session, job: Job, tasks: list[int]) -> list[int]:
    """Sort tasks so that those needed for the minimums of roles come first.

    Of the needed tasks, those come first for which the fewest nodes are large enough. So the room
    that a role needs is not taken by spare tasks, by roles without a minimum, or by tasks that fit
    anywhere.
    """
    listed = session.sort_tasks(tasks)
    short = job.roles_short(pipelined=True)
    roles = {session.cluster.eq_class[t].shape.role for t in listed} if short else set()
    if len(roles) < 2:
        return listed
    first: list[int] = []
    rest: list[int] = []
    for t in listed:
        role = session.cluster.eq_class[t].shape.role
        is_needed = short.get(role, 0) > 0
        (first if is_needed else rest).append(t)
        if is_needed:
            short[role] -= 1
    first.sort(key=lambda t: _hosts(session, t))
    return first + rest


def other_order(session: Session, job: Job, tasks: Tasks, turned_away: int) -> Tasks | None:
    """Return the tasks in another order: the needed tasks of the role of `turned_away` come first.
    Return None if this order cannot help.

    `turned_away`: the task that found no room; -1 if all tasks found room. The order can help if
    the minimum of the task's role still needs tasks, and tasks of other roles came before them.
    """
    if turned_away < 0:
        return None
    eq_class = session.cluster.eq_class
    role = eq_class[turned_away].shape.role
    listed = tasks.rest()
    needed = job.roles_short(pipelined=True).get(role, 0)
    first = [t for t in listed if eq_class[t].shape.role == role][:needed]
    if not first or eq_class[listed[0]].shape.role == role:
        return None
    moved = set(first)
    return Tasks(first + [t for t in listed if t not in moved], None)


def _hosts(session: Session, t: int) -> int:
    """Return how many nodes could hold the task if they were empty."""
    eq_class = session.cluster.eq_class[t]
    holds = session.cluster.capacity >= eq_class.request
    return int(holds[:, eq_class.asked].all(axis=1).sum())


def worksheet_of(session: Session, job: Job) -> Worksheet:
    """Return the pending tasks of a job that request any resource, for each part of the job (its
    subgroups, or the whole job).

    Source: Volcano's organizeJobWorksheet.
    """
    done: dict[str, int] = {}
    waiting = []
    if job.has_subgroups:
        for sub in job.subjobs.values():
            if session.subjob_ready(job, sub):
                done[sub.gid] = done.get(sub.gid, 0) + 1
            else:
                waiting.append(sub)
        waiting.sort(key=session.subjob_key)
    needed = set()
    for sub in waiting:
        if done.get(sub.gid, 0) < job.min_subjobs.get(sub.gid, 0):
            needed.add(sub.uid)
            done[sub.gid] = done.get(sub.gid, 0) + 1
    parts: Heap[SubJob] = Heap(lambda sub: (sub.uid not in needed, session.subjob_key(sub)))
    tasks = {}
    cluster = session.cluster
    if job.counts[j.PENDING] > job.counts[j.IDLE_PENDING]:
        for uid, sub in job.subjobs.items():
            pending = [
                t
                for t in sub.tasks
                if cluster.status[t] == j.PENDING and not cluster.eq_class[t].best_effort
            ]
            if pending:
                tasks[uid] = Tasks(pending, partial(needed_first, session, job))
                parts.push(sub)
    return Worksheet(parts, tasks)
