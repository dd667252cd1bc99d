"""How long the gang of each job has run, on a clock that never goes back.

The clock of a gang begins with its first member, goes on while one runs, stands while none does,
and begins anew once all wait again. A record has what it showed when it was written. The clock also
stands while nothing can be heard of any member that runs, because the head or their connections
ended: they may be over since. What the gang ran meanwhile is known from its nodes: each says how
long a member has run, and a member began when it was asked for, or later.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord, MemberRecord


class RunClocks:
    """The clocks of all jobs, by `namespace/name`."""

    def __init__(self, is_here: Callable[[str], bool]) -> None:
        """`is_here`: whether the node of that id is connected."""
        self._is_here = is_here
        self._since: dict[str, float] = {}
        """Of a gang that runs: what the steady clock showed when `ran_s` of its job was right."""
        self._first: dict[str, float] = {}
        """What the steady clock showed when each job was first seen."""

    def begin(self, job: JobRecord, now: float, steady: float) -> None:
        """A job is new, or known again: its gang runs on from what is written."""
        self._first[job.uid] = steady
        self.set_back(job, now, steady)
        if job.run_started is not None and self._is_heard(job):
            self._since[job.uid] = steady

    def is_going(self, job: JobRecord) -> bool:
        """Whether its gang runs, for all that is known."""
        return job.uid in self._since

    def _is_heard(self, job: JobRecord) -> bool:
        """Whether a member that runs would be heard of."""
        return any(
            member.state in (st.RUNNING, st.TERMINATING)
            and (not member.node or self._is_here(member.node))
            for member in job.members
        )

    def forget(self, job: JobRecord) -> None:
        """It is gone."""
        self._since.pop(job.uid, None)
        self._first.pop(job.uid, None)

    def set_back(self, job: JobRecord, now: float, steady: float) -> None:
        """Where the time of day was set back to before the job was submitted while there was no
        head, what it has really waited counts, as far as it was seen."""
        first = self._first.get(job.uid)
        if first is not None and now < job.submitted - job.set_back_s:
            job.set_back_s = job.submitted - now + (steady - first)

    def ran_s(self, job: JobRecord, steady: float) -> float:
        """How long its gang has run this time."""
        since = self._since.get(job.uid)
        return job.ran_s if since is None else job.ran_s + max(steady - since, 0.0)

    def keep(self, job: JobRecord, steady: float) -> None:
        """Bring its record up to date."""
        if job.uid in self._since:
            job.ran_s = self.ran_s(job, steady)
            self._since[job.uid] = steady

    def look(self, job: JobRecord, now: float, steady: float) -> None:
        """Members have other states: begin, go on, stand still, or wait for another beginning."""
        if job.spec.array is not None:
            return  # it has no gang
        self.keep(job, steady)
        if job.count(st.RUNNING) and job.run_started is None:
            job.run_started = now
        if job.run_started is None:
            return
        if self._is_heard(job):
            self._since.setdefault(job.uid, steady)
            return
        self._since.pop(job.uid, None)
        if job.count(st.WAITING, st.PENDING) == len(job.members):
            job.run_started, job.ran_s, job.is_warned = None, 0.0, False
            job.run_count += 1
            for member in job.members:
                member.asked_s = 0.0

    def heard(self, job: JobRecord, member: MemberRecord, ran_s: float, now: float) -> None:
        """A member that runs has run for so long, says its node: the gang has no less. To be
        called right after `look`."""
        least_s = member.asked_s + ran_s
        if job.uid in self._since and least_s > job.ran_s:
            job.ran_s = least_s
            job.run_started = now - least_s
