"""Measures how long the gang of each job has run, on a clock that never goes backwards.

The clock of a gang starts when its first member starts. The clock runs while any member runs, stops
while none runs, and is reset once all members wait again. The job's record has the clock's value at
the time when the record was written.

The clock also stops while no news of any running member can arrive, because no head runs or no
connection to the nodes exists. The members may have ended in that time. Later the nodes report how
long each member has run, and the clock is corrected by these reports.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord


class RunClocks:
    """The clocks of all jobs, by `namespace/name`."""

    def __init__(self, is_here: Callable[[str], bool]) -> None:
        """`is_here`: whether the node with this id is connected."""
        self._is_here = is_here
        self._since: dict[str, float] = {}
        """For each gang whose clock is running: the time, on the steady clock, when the job's
        `ran_s` was last brought up to date.
        """
        self._stopped: dict[str, float] = {}
        """For each gang whose clock has stopped although its run has not ended: the wall-clock time
        when the clock stopped.
        """
        self._first: dict[str, float] = {}
        """The value of the steady clock when each job was first seen."""

    def begin(self, job: JobRecord, now: float, steady: float) -> None:
        """Begin to follow a new or restored job. If the gang of a restored job has started, its
        clock continues from the value in the job's record.
        """
        self._first[job.uid] = steady
        self.set_back(job, now, steady)
        if job.run_started is None:
            return
        if self._is_heard(job):
            self._since[job.uid] = steady
        else:
            self._stopped[job.uid] = now

    def is_going(self, job: JobRecord) -> bool:
        """Whether the clock of the job's gang is running, because the gang is known to run."""
        return job.uid in self._since

    def _is_heard(self, job: JobRecord) -> bool:
        """Whether news of a running member can arrive."""
        return any(
            member.state in (st.RUNNING, st.TERMINATING)
            and (not member.node or self._is_here(member.node))
            for member in job.members
        )

    def forget(self, job: JobRecord) -> None:
        """Forget a job that is gone."""
        self._since.pop(job.uid, None)
        self._stopped.pop(job.uid, None)
        self._first.pop(job.uid, None)

    def set_back(self, job: JobRecord, now: float, steady: float) -> None:
        """Correct the waiting time of a job whose submission lies in the future, because the clock
        was set back while no head ran. Only the time for which this head has seen the job wait then
        counts.
        """
        first = self._first.get(job.uid)
        if first is not None and now < job.submitted - job.set_back_s:
            job.set_back_s = job.submitted - now + (steady - first)

    def ran_s(self, job: JobRecord, steady: float) -> float:
        """Return the seconds for which the gang has run since its last start."""
        since = self._since.get(job.uid)
        return job.ran_s if since is None else job.ran_s + max(steady - since, 0.0)

    def shown_s(self, job: JobRecord, now: float) -> float:
        """Return the job's `ran_s` for display. If the clock has stopped because no news of the
        running members can arrive, the time since then is added: the members probably still run.
        """
        stopped = self._stopped.get(job.uid)
        if stopped is None or not job.count(st.RUNNING, st.TERMINATING):
            return job.ran_s
        return job.ran_s + max(now - stopped, 0.0)

    def keep(self, job: JobRecord, steady: float) -> None:
        """Bring the job's record up to date."""
        if job.uid in self._since:
            job.ran_s = self.ran_s(job, steady)
            self._since[job.uid] = steady

    def look(self, job: JobRecord, now: float, steady: float) -> None:
        """Start, continue, stop or reset the clock. Call this after the states of members have
        changed.
        """
        if job.spec.array is not None:
            return  # an array has no gang
        self.keep(job, steady)
        if job.count(st.RUNNING) and job.run_started is None:
            job.run_started = now
        if job.run_started is None:
            return
        if self._is_heard(job):
            self._since.setdefault(job.uid, steady)
            self._stopped.pop(job.uid, None)
            return
        self._since.pop(job.uid, None)
        self._stopped.setdefault(job.uid, now)
        if job.count(st.WAITING, st.PENDING) == len(job.members):
            del self._stopped[job.uid]
            job.run_started, job.ran_s, job.is_warned = None, 0.0, False
            job.run_count += 1
            for member in job.members:
                member.asked_s = 0.0

    def heard(self, job: JobRecord, member: MemberRecord, ran_s: float, now: float) -> None:
        """Raise the measured time to the run time of a member, as the member's node reports it.
        Call this right after `look`.
        """
        least_s = member.asked_s + ran_s
        if job.uid in self._since and least_s > job.ran_s:
            job.ran_s = least_s
            job.run_started = now - least_s
