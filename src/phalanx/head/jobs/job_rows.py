"""The stored rows of jobs. Each row holds a job's record and the output files of the job's
members.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.head.state_store import StateStore
from phalanx.model.jobs.records import JobRecord

_TABLE = "batch_jobs"


class JobRow(msgspec.Struct, kw_only=True, eq=False):
    """A job as the store keeps it, and the output files of its members: (node, path) of each
    attempt, by member.
    """

    record: JobRecord
    logs: dict[str, list[tuple[str, str]]] = {}


class JobRows:
    """The rows of all jobs, by the ids of the jobs."""

    def __init__(self, state_store: StateStore) -> None:
        self._state_store = state_store
        self._rows: dict[str, JobRow] = {}

    def store(self, job: JobRecord) -> None:
        """Store a new or changed job."""
        row = self._rows.setdefault(job.uid, JobRow(record=job))
        self._state_store.keep(_TABLE, job.uid.encode(), row)

    def delete(self, uid: str) -> None:
        """Delete a job's row, if it has one."""
        self._rows.pop(uid, None)
        self._state_store.keep(_TABLE, uid.encode(), None)

    def load(self, rows: Iterable[JobRow]) -> dict[str, JobRecord]:
        """Load stored rows. Returns the records by the ids of the jobs."""
        self._rows = {row.record.uid: row for row in rows}
        return {uid: row.record for uid, row in self._rows.items()}

    def oldest_first(self) -> list[JobRecord]:
        """Return all records in the order in which the jobs were submitted."""
        return sorted((row.record for row in self._rows.values()), key=lambda job: job.submitted)

    def logs(self, uid: str) -> dict[str, list[tuple[str, str]]] | None:
        """Return the output files of a job's members; None if there is no such job."""
        row = self._rows.get(uid)
        return None if row is None else row.logs

    def know_log(self, uid: str, member: str, place: tuple[str, str]) -> None:
        """Note an output file of a member, as (node, path). Nothing is stored until the job
        changes.
        """
        row = self._rows.get(uid)
        if row is None:
            return
        known = row.logs.setdefault(member, [])
        _, new_path = place
        for at, (_, path) in enumerate(known):
            if path == new_path:  # the next process of a node has the same files
                known[at] = place
                return
        known.append(place)
