"""Reports changes of nodes, jobs and gangs to clients that follow the cluster."""

from __future__ import annotations

from phalanx.head.changes import ChangeLog
from phalanx.head.clock import Clock
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.requests import GangRequests
from phalanx.head.jobs.listing import JobListing
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.owners import sees
from phalanx.model.ids import GangId
from phalanx.model.jobs.records import JobRecord
from phalanx.model.rows.work import QueueInfo
from phalanx.protocol.requests.news import MAX_ROWS, ClusterNews, GetNews, Since
from phalanx.protocol.requests.request import Asker

COUNTED_EVERY_S = 0.5e-3
"""Seconds per gang between two counts of the queues' resources: with more gangs, the resources are
counted less often.
"""


class News:
    """The changes since this head began, in order."""

    def __init__(
        self,
        clock: Clock,
        nodes: NodeDirectory,
        registry: GangRegistry,
        jobs: JobListing,
        gangs: GangRequests,
    ) -> None:
        self._clock = clock
        self._began = clock.wall()
        """A value that differs from head to head, by which watchers notice a new head."""
        self._queues: list[QueueInfo] = []
        self._queues_due = clock.now()
        self._nodes = nodes
        self._registry = registry
        self._jobs = jobs
        self._gangs = gangs
        self._changed_jobs: ChangeLog[str] = ChangeLog()
        self._changed_gangs: ChangeLog[GangId] = ChangeLog()

    def job_changed(self, job: JobRecord) -> None:
        """Note that a job has come, has changed, or is forgotten."""
        if job.spec.element is None:
            self._changed_jobs.note(job.uid)

    def gang_changed(self, gang: Gang) -> None:
        """Note that a gang has come, has changed, or is over."""
        self._changed_gangs.note(gang.gang_id)

    def queue_rows(self) -> list[QueueInfo]:
        """Return all queues for display. Counting their resources goes over all gangs, so it is
        repeated less often when there are more gangs.
        """
        now = self._clock.now()
        if now >= self._queues_due:
            self._queues = self._gangs.queue_rows()
            self._queues_due = now + len(self._registry.gangs) * COUNTED_EVERY_S
        return self._queues

    def answer(self, asker: Asker[ClusterNews], request: GetNews) -> ClusterNews:
        """Answer with all changes that are later than the versions in the request."""
        since = request.since
        is_new = since.head != self._began
        if is_new:
            since = Since()
        node_version, nodes, gone_nodes = self._nodes.rows_since(since.nodes, MAX_ROWS)
        job_version, uids = self._changed_jobs.since(since.jobs, MAX_ROWS)
        gang_version, gang_ids = self._changed_gangs.since(since.gangs, MAX_ROWS)
        jobs = self._jobs.rows_of(uids)
        there = {uid for uid, _ in jobs}
        living = [self._registry.gangs[one] for one in gang_ids if one in self._registry.gangs]
        return ClusterNews(
            since=Since(self._began, node_version, job_version, gang_version),
            is_new=is_new,
            is_more=max(len(nodes) + len(gone_nodes), len(uids), len(gang_ids)) == MAX_ROWS,
            nodes=nodes,
            jobs=[row for _, row in jobs if sees(asker, row.user)],
            gangs=[self._gangs.row(gang) for gang in living if sees(asker, gang.user)],
            gone_nodes=gone_nodes,
            gone_jobs=[uid for uid in uids if uid not in there],
            gone_gangs=[g.hex() for g in gang_ids if g not in self._registry.gangs],
            queues=self.queue_rows(),
        )
