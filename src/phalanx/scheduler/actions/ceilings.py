"""Finds gangs that certainly cannot be placed, without trying them: their queue admits too few of
their tasks, or nodes can hold too few.

Most waiting gangs fail for one of these two reasons, and equal gangs fail alike. While work is only
placed and not evicted, the room in queues and nodes only shrinks. So a job that is ruled out once
stays ruled out for the rest of the action.
"""

from __future__ import annotations

from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.jobs import PENDING, PIPELINED, Job
from phalanx.scheduler.cycle.session import Session

_MANY = 1 << 30
"""A number that exceeds the number of tasks of any gang."""


class Ceilings:
    """Counts how many tasks of each class the queues admit and the nodes hold. The numbers are
    computed again after each move.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._everywhere = session.placer.mask_of(None)
        self._admitted: dict[tuple[int, int], tuple[int, int]] = {}
        """By queue and class: a version of the cluster, and how many tasks the queue admits at that
        version.
        """
        self._held: dict[tuple[int, int], tuple[int, int, int]] = {}
        """By class and scope: a version of the cluster, the requested number of tasks, and how many
        of them the nodes could hold at that version.
        """

    def stop(self, job: Job) -> bool | None:
        """Whether the job certainly cannot become ready, even if no other waiting work is placed:
        its queue admits too few of its tasks, or the nodes hold too few.

        Returns None if the answer is unknown. It is unknown for jobs with unequal tasks, with
        subgroups, with promises or with a network bound, for entitled jobs, and for filters whose
        answers depend on other placed work. Also returns None if the plan must explain why the job
        waits, because then the job must be tried.
        """
        eq_class = job.eq_class
        if (
            eq_class is None
            or eq_class.best_effort
            or job.has_subgroups
            or job.topology is not None
            or self._session.entitled(job)
        ):
            return None
        placer = self._session.placer
        if self._session.explains or job.counts[PIPELINED] or not placer.can_unroll(eq_class):
            return None
        least = min(self._session.shortfall(job), job.counts[PENDING])
        return self._admits_too_few(job, eq_class, least) or self._hold_too_few(
            job, eq_class, least
        )

    def _admits_too_few(self, job: Job, eq_class: EquivalenceClass, least: int) -> bool:
        key = (job.queue, eq_class.index)
        version = self._session.cluster.version
        at, most = self._admitted.get(key, (-1, _MANY))
        if at != version and most >= least:
            most = self._session.queue_room(job.queue, eq_class, _MANY)
            self._admitted[key] = (version, most)
        return most < least

    def _hold_too_few(self, job: Job, eq_class: EquivalenceClass, least: int) -> bool:
        placer = self._session.placer
        key = placer.key(eq_class, job)
        version = self._session.cluster.version
        at, asked, most = self._held.get(key, (-1, 0, 0))
        if at != version or asked == most < least:
            most = placer.room_for(placer.ask(job.tasks[0]), self._everywhere, least)
            self._held[key] = (version, least, most)
        return most < least
