"""The action enqueue: lets pending podgroups in, queue by queue, unless a plugin votes against it.

Source: Volcano's enqueue action. A podgroup without minimum resources is always let in.
"""

from __future__ import annotations

from phalanx.scheduler.cycle.jobs import Job
from phalanx.scheduler.cycle.ordering import Heap, QueueHeap
from phalanx.scheduler.cycle.session import Session


def run(session: Session) -> None:
    pending = [job for job in session.cluster.jobs if job.is_pending()]
    # there are no votes, so the order does not matter
    if all(job.min_resources is None for job in pending):
        for job in pending:
            _let_in(session, job)
        return
    queues = QueueHeap(session.compare_queues)
    waiting: dict[int, Heap[Job]] = {}
    for job in pending:
        if job.queue not in waiting:
            waiting[job.queue] = Heap(session.job_key)
            queues.push(job.queue)
        waiting[job.queue].push(job)
    while len(queues):
        queue = queues.pop()
        if not len(waiting[queue]):
            continue
        job = waiting[queue].pop()
        if job.min_resources is None or session.hooks.vote("job_enqueueable", job):
            _let_in(session, job)
        queues.push(queue)


def _let_in(session: Session, job: Job) -> None:
    session.hooks.notify("job_enqueued", job)
    job.phase = "Inqueue"
