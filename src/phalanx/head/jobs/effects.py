"""What the life cycle of jobs asks of its shell."""

from __future__ import annotations

from typing import Protocol

from phalanx.model.jobs.records import JobRecord, MemberRecord
from phalanx.model.jobs.timing import WarningSignal


class JobEffects(Protocol):
    """What the machine asks of its shell."""

    def want_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Find places for these and start them; MemberRan, MemberExited or MemberLost follow."""
        ...

    def restart_members(self, job: JobRecord, members: list[MemberRecord]) -> None:
        """Start the processes of these again where they were, as the next attempt."""
        ...

    def end_members(self, job: JobRecord, members: list[MemberRecord], reason: str) -> None:
        """End these: SIGTERM, their grace period, SIGKILL; at once where they have no place yet.
        MemberExited or MemberLost follows for each."""
        ...

    def warn_members(self, job: JobRecord, signal: WarningSignal) -> None:
        """Its time is nearly over: send its members that run this signal, each start once."""
        ...

    def is_here(self, node_id: str) -> bool:
        """Whether that node is connected: what happens to its members is heard of."""
        ...

    def want_elements(self, job: JobRecord) -> None:
        """Have those elements of an array live that may; ArrayTasksChanged follows if any does."""
        ...

    def end_elements(self, job: JobRecord, only_pending: bool, comes_back: bool) -> None:
        """End the elements that live, or only those that wait for places; who `comes_back` waits
        again after that. ArrayTasksChanged follows."""
        ...

    def tell_others(self, jobs: list[str]) -> None:
        """What these wait for has begun or ended: OthersChanged follows for each."""
        ...

    def count(self, job: JobRecord, what: str) -> None:
        """Something happened to it that is counted: see `head.jobs.counts`."""
        ...

    def publish(self, job: JobRecord) -> None:
        """Something about it changed: keep it, and notify who watches."""
        ...

    def forget(self, job: JobRecord) -> None:
        """It is gone: drop its record and what its members left behind."""
        ...
