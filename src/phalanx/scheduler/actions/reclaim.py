"""The action reclaim: gives a queue what it deserves by evicting work of other queues.

Source: Volcano's reclaim action. Queues that are not overused take their turns in order, with their
starving jobs. If a queue may reclaim, each task of its jobs gets the first node where the eviction
of victims makes enough room. The victims must belong to other queues that are reclaimable. The
moves for a job are kept only if the job is then pipelined. Unlike in Volcano:
- Entitled jobs get their places as a whole, and the work there leaves (see `cycle.places`).
- Jobs with a network bound are skipped, as in preempt, because room that is reclaimed node by node
  may not be in one domain.
"""

from __future__ import annotations

import numpy as np

from phalanx.scheduler.actions import entitled
from phalanx.scheduler.actions.worksheet import needed_first, worksheet_of
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.amounts import Counts
from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.statement import Statement


def run(session: Session) -> None:
    queues = QueueHeap(session.compare_queues)
    starving: dict[int, Heap[Job]] = {}
    seen: set[int] = set()
    for job in session.cluster.jobs:
        if job.is_pending() or not session.job_valid(job):
            continue
        if job.queue not in seen:
            seen.add(job.queue)
            queues.push(job.queue)
        if session.job_starving(job) and not job.has_topology():
            starving.setdefault(job.queue, Heap(session.job_key)).push(job)
    while len(queues):
        queue = queues.pop()
        if queue not in starving or session.overused(queue):
            continue
        jobs = starving[queue]
        barren = np.full(len(session.cluster.nodes), -1, dtype=np.int64)
        while len(jobs):
            _for_job(session, jobs.pop(), barren)


def _for_job(session: Session, job: Job, barren: Counts) -> None:
    """Reclaim room for one job. `barren`: for each node, the last version of the cluster in which
    no work there could be reclaimed for the job's queue.
    """
    statement = Statement(session)
    if session.entitled(job):
        _take_places(session, statement, job)
    else:
        _take_nodes(session, statement, job, barren)
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()


def _take_places(session: Session, statement: Statement, job: Job) -> None:
    everywhere = session.placer.mask_of(None)
    for uid, tasks in worksheet_of(session, job).tasks.items():
        entitled.fill(session, statement, job.subjobs[uid], tasks, everywhere, action="reclaim")


def _take_nodes(session: Session, statement: Statement, job: Job, barren: Counts) -> None:
    cluster = session.cluster
    for t in needed_first(session, job, session.pending(job)):
        if not session.job_starving(job):
            break
        if cluster.tasks[t].preemption_policy == "Never":
            continue
        if not session.hooks.every("preemptive", job.queue, cluster.eq_class[t].vector):
            continue
        if session.hooks.first("pre_predicate", t) is not None:
            continue
        _for_task(session, statement, t, job, barren)


def _for_task(session: Session, statement: Statement, t: int, job: Job, barren: Counts) -> None:
    cluster, placer = session.cluster, session.placer
    eq_class = cluster.eq_class[t]
    for node in np.flatnonzero(placer.curable(placer.ask(t)) & (cluster.changed_at > barren)):
        candidates = _candidates(session, int(node), job)
        if not candidates:
            barren[node] = cluster.version
            continue
        victims = session.hooks.intersect("reclaimable", t, candidates)
        room = cluster.future[node].copy()
        for v in victims:
            room += cluster.eq_class[v].request
        if not bool((room >= eq_class.request)[eq_class.asked].all()):
            continue
        attempt = Statement(session)
        for v in session.sort_victims(victims, t):
            if placer.fits(t, int(node)):
                break
            attempt.evict(v, "reclaim")
        if placer.fits(t, int(node)) and placer.passes_now(placer.ask(t), int(node)):
            attempt.pipeline(t, int(node))
            statement.merge(attempt)
            return
        attempt.discard()


def _candidates(session: Session, node: int, job: Job) -> list[int]:
    """Return the tasks on the node that may be evicted for the job: running, preemptable tasks of
    other queues that are reclaimable.
    """
    cluster = session.cluster
    out = []
    for t in sorted(cluster.on_node[node]):
        if cluster.status[t] != j.RUNNING or not cluster.tasks[t].preemptable:
            continue
        index = cluster.job_of[t]
        if index < 0 or cluster.jobs[index].queue == job.queue:
            continue
        if cluster.queues[cluster.jobs[index].queue].reclaimable:
            out.append(t)
    return out
