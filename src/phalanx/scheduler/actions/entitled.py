"""Puts the tasks of entitled jobs on the places to which they have a right (see `cycle.places`)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.scheduler.actions.worksheet import Tasks
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Flags
from phalanx.scheduler.cycle.jobs import Job, SubJob
from phalanx.scheduler.cycle.places import Places, PlacesAsk
from phalanx.scheduler.cycle.plan import Rejection
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement

_TRIES = 64
"""How many times a plugin is asked for the places of the same tasks, if other plugins' rules refuse
some of the places.
"""


def fill(
    session: Session,
    statement: Statement,
    sub: SubJob,
    tasks: Tasks,
    within: Flags,
    *,
    action: str = "",
) -> tuple[int, tuple[Rejection, ...]]:
    """Place tasks of a part of an entitled job until the part is ready, or will be ready once
    evictions end. `action`: the action for which work may be evicted; "" if no work may be evicted.

    Returns the first task without a place (-1 if there is none), and the reasons if that task was
    refused before any node was asked.
    """
    job = sub.job
    start = statement.checkpoint()
    while len(tasks):
        some = tasks.take(_count(session, job, sub))
        for t in some:
            refusal = session.hooks.first("pre_predicate", t)
            if refusal is not None:
                return t, (refusal,)
        if action and not all(_may_evict(session, job, t) for t in some):
            return some[0], ()
        failed, why = _place(session, statement, job, some, within, action)
        if failed >= 0:
            return failed, why
        has_moved = statement.checkpoint() > start
        if has_moved and (session.subjob_ready(job, sub) or session.subjob_pipelined(job, sub)):
            break
    return -1, ()


def _count(session: Session, job: Job, sub: SubJob) -> int:
    """Return how many tasks the part needs at least to become ready."""
    part = sub if job.has_subgroups else job
    short = sub.shortfall() if job.has_subgroups else session.shortfall(job)
    return max(short - part.counts[j.PIPELINED], 1)


def _may_evict(session: Session, job: Job, t: int) -> bool:
    cluster = session.cluster
    if cluster.tasks[t].preemption_policy == "Never":
        return False
    return session.hooks.every("preemptive", job.queue, cluster.eq_class[t].vector)


def _place(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: Sequence[int],
    within: Flags,
    action: str,
) -> tuple[int, tuple[Rejection, ...]]:
    """Place all of these tasks, or only those for which the plugin has places. The result is the
    same as that of `fill`.
    """
    refused: set[int] = set()
    mark = statement.checkpoint()
    for _ in range(_TRIES):
        ask = PlacesAsk(job=job, tasks=tasks, within=within, refused=refused, evicts=bool(action))
        found: Places = session.hooks.first("places", ask)
        if not action and _put_together(session, statement, job, tasks, found):
            return -1, ()
        for victim in found.victims:
            statement.evict(victim, action)
        unfit = -1
        for t, node in zip(tasks, found.nodes, strict=True):
            if node < 0:
                continue
            if not session.allocatable(t):
                eq_class = session.cluster.eq_class[t]
                return t, session.shortages(job, eq_class) if session.explains else ()
            if not statement.moves:
                session.note_chooser(job, node, found.among, found.chooser)
            if not _put(session, statement, t, node, evicts=bool(action)):
                unfit = node
                break
        if unfit < 0:
            missing = (t for t, node in zip(tasks, found.nodes, strict=True) if node < 0)
            return next(missing, -1), ()
        statement.rollback(mark)
        refused.add(unfit)
    return tasks[0], ()


def _put_together(
    session: Session, statement: Statement, job: Job, tasks: Sequence[int], found: Places
) -> bool:
    """Place equal tasks in one step. Returns False, and changes nothing, if they must be placed one
    by one.
    """
    eq_class, count = session.cluster.eq_class[tasks[0]], len(tasks)
    if count < 2 or any(session.cluster.eq_class[t] is not eq_class for t in tasks):
        return False
    if -1 in found.nodes or session.room(job, eq_class, count) < count:
        return False
    if not session.placer.fit_together(session.placer.ask(tasks[0]), found.nodes):
        return False
    if not statement.moves:
        session.note_chooser(job, found.nodes[0], found.among, found.chooser)
    statement.allocate(eq_class, tasks, found.nodes)
    return True


def _put(session: Session, statement: Statement, t: int, node: int, *, evicts: bool) -> bool:
    """Place a task on a node. If this task or other tasks of the job must wait for evictions,
    promise it room there instead. Returns False if the task does not fit.
    """
    ask = session.placer.ask(t)
    if not session.placer.passes_now(ask, node) or not session.placer.fits(t, node):
        return False
    eq_class = ask.eq_class
    if not evicts and session.placer.has_room_now(ask, node):
        statement.allocate(eq_class, [t], [node])
    else:
        statement.pipeline(t, node)
        session.kept_places.add(t)
    return True
