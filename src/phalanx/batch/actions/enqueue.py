"""Let pending podgroups in, queue by queue, while every vote allows it.

Source: Volcano's enqueue action. A podgroup without minimum resources is always let in.
"""

from __future__ import annotations

from phalanx.batch.jobs import Job
from phalanx.batch.ordering import Heap, QueueHeap
from phalanx.batch.session import Session


def run(session: Session) -> None:
    queues = QueueHeap(session.compare_queues)
    waiting: dict[int, Heap[Job]] = {}
    for job in session.cluster.jobs:
        if not job.is_pending():
            continue
        if job.queue not in waiting:
            waiting[job.queue] = Heap(session.job_key)
            queues.push(job.queue)
        waiting[job.queue].push(job)
    while len(queues):
        queue = queues.pop()
        if not len(waiting[queue]):
            continue
        job = waiting[queue].pop()
        if job.min_resources is None or session.voices.vote("job_enqueueable", job):
            session.voices.tell("job_enqueued", job)
            job.phase = "Inqueue"
        queues.push(queue)
