"""Creates the recorders of queues, reservations, gangs and jobs, and connects them to the parts
whose changes they record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from phalanx.head.events.event_log import EventLog
from phalanx.head.events.gangs import GangRecorder
from phalanx.head.events.jobs import JobRecorder
from phalanx.head.events.queues import QueueRecorder, ReservationRecorder
from phalanx.head.gangs.gang import Gang
from phalanx.head.queues.control import Queues
from phalanx.head.reservations.control import ReservationControl
from phalanx.model.jobs.records import JobRecord


class Recorders:
    """The recorders of events, one for each kind of thing."""

    def __init__(
        self,
        event_log: EventLog,
        queues: Queues,
        calendar: ReservationControl,
        host_of: Callable[[str], str],
        job_of: Callable[[str], JobRecord | None],
    ) -> None:
        """`host_of`: returns the host name of a node by its id. `job_of`: returns a job by
        its uid.
        """
        self.of_gangs = GangRecorder(event_log, host_of, job_of)
        self.of_jobs = JobRecorder(event_log)
        self._queues, self._of_queues = queues, QueueRecorder(event_log)
        self._calendar, self._of_reservations = calendar, ReservationRecorder(event_log)
        self._of_queues.restore(queues.table.all())
        queues.on_publish = self._of_queues.published
        queues.on_forget = self._of_queues.forgotten
        calendar.on_keep = self._of_reservations.kept

    def restore(self, jobs: Iterable[JobRecord]) -> None:
        """Restore what an earlier head knew. Queues and reservations must have been restored
        before.
        """
        self._of_queues.restore(self._queues.table.all())
        self._of_reservations.restore(self._calendar.table.all())
        self.of_jobs.restore(jobs)

    def evicted(self, gang: Gang, members: list[int], action: str, claimant: str) -> None:
        """Note that an action evicts these members to make room for the gang `claimant` ("" for no
        gang). Each member is told for which gang it gives way.
        """
        self.of_gangs.evicted(gang, members, action, claimant)
        if claimant:
            for index in members:
                gang.members[index].gave_way = f"its place went to {claimant} ({action})"
