"""The effects that the life cycle of jobs requests from its shell."""

from __future__ import annotations

from typing import Protocol

from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.timing import WarningSignal


class JobEffects(Protocol):
    """Requests that the machine of jobs makes to its shell."""

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Find places for these members, and start them. MemberRan, MemberExited or MemberLost
        follows for each.
        """
        ...

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Restart the processes of these members in their places, as the next attempt."""
        ...

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """End these members: each gets SIGTERM, and SIGKILL after its grace period. Members without
        a place end immediately. MemberExited or MemberLost follows for each.
        """
        ...

    def warn_members(self, job: JobRecord, signal: WarningSignal) -> None:
        """Send this signal to the running members of a job whose time is almost up. Each attempt of
        a member gets the signal at most once.
        """
        ...

    def is_here(self, node_id: str) -> bool:
        """Whether that node is connected, so that news of its members can arrive."""
        ...

    def want_array_tasks(self, job: JobRecord) -> None:
        """Start the tasks of an array that may become live. If there are any, ArrayTasksChanged
        follows.
        """
        ...

    def end_array_tasks(self, job: JobRecord, only_pending: bool, comes_back: bool) -> None:
        """End the live tasks of an array, or only those that wait for places. With `comes_back`,
        the tasks wait again afterwards. ArrayTasksChanged follows.
        """
        ...

    def notify_dependents(self, jobs: list[str]) -> None:
        """Notify these jobs that a job for which they wait has started or ended. DependencyChanged
        follows for each notified job.
        """
        ...

    def count(self, job: JobRecord, what: str) -> None:
        """Count an occurrence, named as in `head.jobs.counts`."""
        ...

    def publish(self, job: JobRecord) -> None:
        """Store a changed job, and notify its watchers."""
        ...

    def forget(self, job: JobRecord) -> None:
        """Delete the record of a job that is gone, and the files of its members."""
        ...
