"""Some fields of many jobs, as columns.

A listing of thousands of jobs reads few fields of each, and most of these need no whole row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.head.clock import Clock
from phalanx.head.gangs.explaining import Explanations, Wait
from phalanx.head.jobs import time_limits
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.rows import DEFECT, after_text, array_text, queued, state_of, why
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.owners import sees
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.cluster import listed_name
from phalanx.model.rows.work import JobInfo
from phalanx.protocol.requests.jobs import CODE, HOSTS, JobColumns, ListJobColumns
from phalanx.protocol.requests.news import WaitInfo, with_wait
from phalanx.protocol.requests.request import Asker

Jobs = Sequence[JobRecord]
_NONE: dict[str, int] = {}
_AT_ONCE = 256
"""The number of jobs whose columns are made in one pass. The records of this number of jobs stay in
the processor's cache while each column reads them again.
"""
_NO_NOTES: dict[str, str] = {}
_NOWHERE: list[str] = []
_QUICK: dict[str, Callable[[Jobs], list[Any]]] = {
    "name": lambda jobs: [job.spec.name for job in jobs],
    "namespace": lambda jobs: [job.spec.namespace for job in jobs],
    "queue": lambda jobs: [job.spec.queue for job in jobs],
    "user": lambda jobs: [job.spec.user for job in jobs],
    "submitted": lambda jobs: [job.submitted for job in jobs],
    "started": lambda jobs: [job.started for job in jobs],
    "finished": lambda jobs: [job.finished for job in jobs],
    "restarts": lambda jobs: [job.run_count for job in jobs],
    "is_held": lambda jobs: [job.is_held for job in jobs],
    "time_limit_s": lambda jobs: [job.spec.timing.limit_s for job in jobs],
    "begins": lambda jobs: [
        None if job.spec.timing.begin is None else time_limits.begins(job) for job in jobs
    ],
    "deadline": lambda jobs: [time_limits.deadline_of(job) for job in jobs],
    "after": lambda jobs: [after_text(job) for job in jobs],
    "array": lambda jobs: [array_text(job) for job in jobs],
    "reservation": lambda jobs: [job.spec.reservation for job in jobs],
    "licenses": lambda jobs: [
        dict(job.spec.licenses) if job.spec.licenses else _NONE for job in jobs
    ],
}
"""The functions that make the columns of those fields that need neither the time nor the
scheduler.
"""


class ColumnListing:
    """Answers requests for columns of jobs."""

    def __init__(
        self,
        jobs: JobGangs,
        clock: Clock,
        *,
        explanations: Explanations,
        waits_as: Callable[[str], str],
        row: Callable[[JobRecord, float], JobInfo],
        priorities: Callable[[list[JobSpec]], list[int]],
        nodes: NodeDirectory,
    ) -> None:
        """`waits_as` returns the name of the gang that waits for a job. `row` returns a job's
        row without the reason why the job waits.
        """
        self._jobs = jobs
        self._clock = clock
        self._explanations = explanations
        self._waits_as = waits_as
        self._row = row
        self._priorities = priorities
        self._nodes = nodes

    def answer(self, asker: Asker[JobColumns], request: ListJobColumns) -> JobColumns:
        """Answer a request."""
        wanted, names, now = set(request.states), set(request.names), self._clock.wall()
        nothing = _View(self, [], [], [], now)
        columns = [list(nothing.column(field)) for field in request.fields]
        columns += [[] for _ in request.annotations]
        arrays: list[JobInfo] = []
        every = iter(self._jobs.table.all())
        while some := list(itertools.islice(every, _AT_ONCE)):
            states = {
                job: state
                for job in some
                if job.spec.element is None
                and (not names or job.spec.name in names)
                and sees(asker, job.spec.user)
                and ((state := state_of(job)) in wanted or not wanted)
            }
            jobs = list(states)
            times = [
                job.ran_s if job.run_started is None else self._jobs.keep_time(job) for job in jobs
            ]
            view = _View(self, jobs, list(states.values()), times, now)
            found = [view.column(field) for field in request.fields]
            found += _annotations(jobs, request.annotations)
            for column, values in zip(columns, found, strict=True):
                column += values
            arrays += view.arrays()
        return JobColumns(columns, arrays)

    def waits(self, jobs: Jobs) -> list[Wait | None]:
        """Return why each of these jobs waits; None for a job that does not wait for places."""
        return self._explanations.waits(
            [job.uid if job.spec.array is None else self._waits_as(job.uid) for job in jobs]
        )

    def reasons(self, jobs: Jobs, waits: Sequence[Wait | None], now: float) -> list[str]:
        """Return the reason in each job's row."""
        found = []
        for job, wait in zip(jobs, waits, strict=True):
            if wait is not None and wait.reason:
                found.append(wait.reason)
            elif job.uid in self._jobs.errors:
                found.append(DEFECT + self._jobs.errors[job.uid])
            else:
                found.append(why(job, now))
        return found

    def priorities(self, jobs: Jobs) -> list[int]:
        """Return the jobs' priorities."""
        return self._priorities([job.spec for job in jobs])

    def hosts(self, jobs: Jobs) -> list[list[str]]:
        """Return, for each job, the names that its nodes have in lists of hosts."""
        known: dict[str, str] = {}
        return [
            # the members of a waiting job have no nodes, or not yet all of them
            _NOWHERE
            if job.state == st.PENDING
            else [self._host(node, known) for node in _nodes(job)]
            for job in jobs
        ]

    def _host(self, node: str, known: dict[str, str]) -> str:
        if node not in known:
            record = self._nodes.get(node)
            known[node] = node[:8] if record is None else listed_name(record.host, record.hostname)
        return known[node]

    def rows(self, jobs: Jobs, waits: Sequence[Wait | None], now: float) -> list[JobInfo]:
        """Return the jobs' whole rows."""
        return [
            with_wait(self._row(job, now), None if wait is None else WaitInfo(job.uid, *wait))
            for job, wait in zip(jobs, waits, strict=True)
        ]


class _View:
    """The columns of some jobs at one moment. Values that several columns need are found once."""

    def __init__(
        self,
        listing: ColumnListing,
        jobs: Jobs,
        states: list[str],
        times: list[float],
        now: float,
    ) -> None:
        """`states`, `times`: the state of each job, and the run time that is shown for it."""
        self._listing = listing
        self._jobs = jobs
        self._states = states
        self._times = times
        self._now = now
        self._waits: list[Wait | None] | None = None
        self._rows: list[JobInfo] | None = None

    def column(self, field: str) -> list[Any]:
        """Return the values of a field. Raises ValueError for an unknown field."""
        jobs, now = self._jobs, self._now
        if field in _QUICK:
            return _QUICK[field](jobs)
        if field == "state":
            return self._states
        if field == "ran_s":
            return self._times
        if field == "replicas":
            return [_replicas(job.spec) for job in jobs]
        if field == "priority":
            return self._listing.priorities(jobs)
        if field == "queued":
            return [queued(job, now) for job in jobs]
        if field == HOSTS:
            return self._listing.hosts(jobs)
        if field == "reason":
            return self._listing.reasons(jobs, self.waits, now)
        if field == "position":
            return [None if wait is None else wait.position for wait in self.waits]
        if field == CODE:
            return ["" if wait is None else wait.code for wait in self.waits]
        if field == "expected_start":
            return [None if wait is None else wait.expected_start for wait in self.waits]
        if field not in JobInfo.__struct_fields__:
            raise ValueError(f"jobs have no field {field!r}")
        return [getattr(row, field) for row in self.rows]

    @property
    def waits(self) -> list[Wait | None]:
        if self._waits is None:
            self._waits = self._listing.waits(self._jobs)
        return self._waits

    @property
    def rows(self) -> list[JobInfo]:
        if self._rows is None:
            self._rows = self._listing.rows(self._jobs, self.waits, self._now)
        return self._rows

    def arrays(self) -> list[JobInfo]:
        """Return the whole rows of the arrays."""
        arrays = [job for job in self._jobs if job.spec.array is not None]
        return self._listing.rows(arrays, self._listing.waits(arrays), self._now)


def _nodes(job: JobRecord) -> list[str]:
    return list(dict.fromkeys(member.node for member in job.members if member.node))


def _replicas(spec: JobSpec) -> int:
    if spec.array is not None:
        return spec.array.count
    return spec.groups[0].replicas if len(spec.groups) == 1 else spec.replicas


def _annotations(jobs: Jobs, names: Sequence[str]) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in names]
    if names:
        for job in jobs:
            of_job = dict(job.spec.annotations) if job.spec.annotations else _NO_NOTES
            for name, column in zip(names, found, strict=True):
                column.append(of_job.get(name))
    return found
