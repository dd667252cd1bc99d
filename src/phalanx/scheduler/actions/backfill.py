"""The action backfill: places tasks that request nothing on any node that passes the filters.

Source: Volcano's backfill action. Queues and jobs take their turns in order. If such a task was
promised room earlier in the cycle, the promise is taken back first.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.rows import Ask, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


def run(session: Session) -> None:
    for t in _pending(session):
        job = session.job(t)
        if session.hooks.first("pre_predicate", t) is not None:
            continue
        ask = session.placer.ask(t)
        node = _best(session, ask)
        if node < 0:
            continue
        statement = Statement(session)
        statement.allocate(ask.eq_class, [t], [node])
        if session.job_ready(job):
            _bind_with_gang(session, job)


def _bind_with_gang(session: Session, job: Job) -> None:
    """Bind all allocated tasks of a job that is ready."""
    cluster = session.cluster
    for t in job.tasks:
        if cluster.status[t] == j.ALLOCATED:
            session.binds[t] = cluster.node_of[t]
            cluster.bind([t])


def _best(session: Session, ask: Ask) -> int:
    """Return the node with the best score among those that pass every filter. Room is not checked,
    because the task requests nothing.
    """
    cluster = session.cluster
    rows = Rows(cluster, np.arange(len(cluster.nodes)))
    passes = np.ones(len(rows), dtype=np.bool_)
    for f in session.placer.rules()[0]:
        passes &= f.passes(rows, ask)
    return session.placer.best(ask, passes)


def _pending(session: Session) -> list[int]:
    queues = QueueHeap(session.compare_queues)
    waiting: dict[int, Heap[Job]] = {}
    tasks: dict[int, list[int]] = {}
    cluster = session.cluster
    for job in cluster.jobs:
        if not (job.counts[j.IDLE_PENDING] or job.counts[j.PIPELINED]):
            continue
        if job.is_pending() or not session.job_valid(job):
            continue
        mine = [
            t
            for t in job.tasks
            if cluster.eq_class[t].best_effort and cluster.status[t] in (j.PENDING, j.PIPELINED)
        ]
        for t in mine:
            if cluster.status[t] == j.PIPELINED:
                node = cluster.node_of[t]
                cluster.unplace(cluster.eq_class[t], [t], [node])
                session.changed(job, cluster.eq_class[t], [t], [node], -1)
        if mine:
            tasks[job.index] = mine
            if job.queue not in waiting:
                waiting[job.queue] = Heap(session.job_key)
                queues.push(job.queue)
            waiting[job.queue].push(job)
    out: list[int] = []
    while len(queues):
        queue = queues.pop()
        jobs = waiting[queue]
        while len(jobs):
            out += session.sort_tasks(tasks[jobs.pop().index])
    return out
