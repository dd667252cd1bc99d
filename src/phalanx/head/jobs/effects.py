"""The effects that the life cycle of jobs asks its shell for."""

from __future__ import annotations

from typing import Protocol

from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.timing import WarningSignal


class JobEffects(Protocol):
    """The requests of the machine to its shell."""

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Find places for these members and start them; MemberRan, MemberExited or MemberLost
        follow.
        """
        ...

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Start the processes of these members again in their places, as the next attempt."""
        ...

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """End these members: SIGTERM, their grace period, SIGKILL; at once if they have no place
        yet. MemberExited or MemberLost follows for each.
        """
        ...

    def warn_members(self, job: JobRecord, signal: WarningSignal) -> None:
        """Send this signal to the running members of a job whose time is nearly over. Each start of
        a member gets the signal once.
        """
        ...

    def is_here(self, node_id: str) -> bool:
        """Whether that node is connected, so that news of its members can arrive."""
        ...

    def want_array_tasks(self, job: JobRecord) -> None:
        """Start the array tasks of an array that may live; ArrayTasksChanged follows if any
        does.
        """
        ...

    def end_array_tasks(self, job: JobRecord, only_pending: bool, comes_back: bool) -> None:
        """End the living tasks of an array, or only the tasks that wait for places. If `comes_back`
        is set, the tasks wait again afterwards. ArrayTasksChanged follows.
        """
        ...

    def tell_others(self, jobs: list[str]) -> None:
        """Tell these jobs that a job for which they wait has begun or ended. OthersChanged follows
        for each of them.
        """
        ...

    def count(self, job: JobRecord, what: str) -> None:
        """Count an occurrence: see `head.jobs.counts`."""
        ...

    def publish(self, job: JobRecord) -> None:
        """Store a changed job, and notify its watchers."""
        ...

    def forget(self, job: JobRecord) -> None:
        """Delete the record of a job that is gone, and the files of its members."""
        ...
