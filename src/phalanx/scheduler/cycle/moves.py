"""Continues moves of running podgroups to other nodes. Earlier cycles have decided these moves.

A move makes room for another podgroup, the *claimant*. The cycle that decides the move (see the
action consolidate) evicts the tasks of the moved podgroup, and sets a node aside for each of them:
the task's *home*. The cycle also sets nodes aside for the claimant's tasks. Later cycles keep these
nodes for these tasks alone, until the tasks have their places.
"""

from __future__ import annotations

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


def resume(session: Session) -> None:
    """Continue the moves of earlier cycles, before any other work is placed.

    Tasks that have left get their homes, and homes of tasks that are still leaving are kept free. A
    podgroup whose tasks no longer fit on their homes loses the homes, and waits like any other
    podgroup.
    """
    cluster = session.cluster
    of_job: dict[int, list[int]] = {}
    for t in sorted(cluster.homes):
        if cluster.job_of[t] >= 0 and cluster.status[t] in (j.PENDING, j.RELEASING):
            of_job.setdefault(cluster.job_of[t], []).append(t)
    for index, tasks in of_job.items():
        _resume(session, cluster.jobs[index], tasks)


def _resume(session: Session, job: Job, tasks: list[int]) -> None:
    cluster = session.cluster
    statement = Statement(session)
    for t in tasks:
        node, eq_class = cluster.homes[t], cluster.eq_class[t]
        is_free = session.placer.fits(t, node) and session.allocatable(t)
        ask = session.placer.ask(t)
        if not is_free or not session.placer.passes_now(ask, node):
            statement.discard()
            return
        if cluster.status[t] == j.RELEASING:
            statement.hold(t, node)
        elif session.placer.has_room_now(ask, node):
            statement.allocate(eq_class, [t], [node])
        else:
            statement.pipeline(t, node)
    if not (session.job_ready(job) or _will_be_ready(session, job, tasks)):
        statement.discard()
        return
    if job.is_pending():
        job.phase = "Inqueue"
    session.homes.update({t: cluster.homes[t] for t in tasks})
    if session.job_ready(job):
        statement.commit()


def _will_be_ready(session: Session, job: Job, tasks: list[int]) -> bool:
    """Whether the podgroup will be ready after all of its tasks with homes have left their old
    nodes.
    """
    leaving = sum(session.cluster.status[t] == j.RELEASING for t in tasks)
    return job.shortfall() <= job.counts[j.PIPELINED] + leaving
