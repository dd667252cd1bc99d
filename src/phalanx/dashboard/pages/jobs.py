"""The data of the page Jobs and of the page of one job: states, reasons for waiting, and expected
starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from phalanx.dashboard.pages.arrays import ArrayGrid
from phalanx.dashboard.pages.events import Step
from phalanx.dashboard.pages.lists import Asked, Listed, asked, cut
from phalanx.dashboard.pages.member_use import DrawnMember
from phalanx.dashboard.pages.metrics import jobs_by_state
from phalanx.dashboard.watch import ClusterSnapshot
from phalanx.model.jobs import states as st
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.work import JobDescription, JobInfo, MemberInfo
from phalanx.observe.job_times import current, ran_s

_LATE = float("inf")
_STATES = {state: place for place, state in enumerate(st.JOB)}
COLUMNS: dict[str, Callable[[JobInfo], Any]] = {
    "name": lambda job: (job.namespace, job.name),
    "queue": lambda job: (job.queue, job.submitted),
    "user": lambda job: (job.user, job.submitted),
    "state": lambda job: (_STATES.get(job.state, len(_STATES)), job.submitted),
    "age": lambda job: job.submitted,
    "ran": ran_s,
    "members": lambda job: job.replicas,
    "gpus": lambda job: (job.gpus, job.submitted),
    "position": lambda job: (job.position or _LATE, job.queue, job.submitted),
    "start": lambda job: (job.expected_start.at_s if job.expected_start else _LATE, job.submitted),
}
_USUAL = "-age"
"""The default order: the youngest first."""
ALIVE = "alive"
"""The filter for all states in which a job has not ended."""


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs."""

    listed: Listed[JobInfo]
    states: dict[str, int]
    """The number of jobs by state, among the jobs that match the other filters."""
    queues: list[str]


def jobs(snapshot: ClusterSnapshot, words: Mapping[str, str]) -> JobList:
    """Return the jobs that an address selects: by words in the name or the reason, by queue, by
    user and by state.
    """
    wanted = asked(words, ("q", "queue", "state", "user"), _USUAL)
    filters = wanted.filters
    narrows = filters.keys() - {"state"}
    others = [job for job in snapshot.jobs if _is_meant(job, wanted)] if narrows else snapshot.jobs
    state = filters.get("state", "")
    rows = [job for job in others if _is_in(job, state)] if state else others
    if wanted.sort.lstrip("-") == "ran":
        rows = current(rows, snapshot.at)
    listed = cut(rows, len(snapshot.jobs), wanted, COLUMNS, _USUAL)
    return JobList(
        listed=msgspec.structs.replace(listed, rows=current(listed.rows, snapshot.at)),
        states=jobs_by_state(others),
        queues=sorted(queue.name for queue in snapshot.queues if queue.name != "root"),
    )


def _is_in(job: JobInfo, state: str) -> bool:
    if state.lower() == ALIVE:
        return job.finished is None
    return job.state.lower() == state.lower()


def _is_meant(job: JobInfo, wanted: Asked) -> bool:
    filters, words = wanted.filters, wanted.filters.get("q", "").lower().split()
    if filters.get("queue", job.queue) != job.queue or filters.get("user", job.user) != job.user:
        return False
    text = f"{job.namespace}/{job.name} {job.reason}".lower()
    return all(word in text for word in words)


class LastLines(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the output of a member that failed."""

    member: str
    text: str


LAST_BYTES = 8_192
"""The number of bytes at the end of an output from which its last lines are taken."""
_LAST_LINES = 12
_FAILED = frozenset({st.FAILED, st.TIMED_OUT, st.DEADLINE})


def first_failed(job: JobDescription) -> MemberInfo | None:
    """Return the member that failed first and whose output is kept; None unless the job failed."""
    if job.state not in _FAILED:
        return None
    kept = [member for member in job.members if member.logs]
    failed = [member for member in kept if member.state == st.FAILED] or kept
    return min(failed, key=lambda member: member.ended or _LATE, default=None)


def last_lines(member: str, text: str) -> LastLines | None:
    """Return the last lines of a member's output; None for an empty output. `text` is the end of
    that output.
    """
    lines = text.rstrip().splitlines()[-_LAST_LINES:]
    return LastLines(member=member, text="\n".join(lines)) if lines else None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of one job."""

    job: JobDescription
    why: Explanation | None
    is_over: bool
    actions: list[str]
    """The commands that are allowed in the job's present state."""
    steps: list[Step]
    array: ArrayGrid | None = None
    """For an array: its tasks."""
    uses: list[DrawnMember] = []
    """The usage of the job's first running members."""
    last: LastLines | None = None
    """For a job that failed: the end of the output of the member that failed first."""


def job_page(
    job: JobDescription,
    why: Explanation | None,
    steps: list[Step],
    array: ArrayGrid | None = None,
    uses: Sequence[DrawnMember] = (),
    last: LastLines | None = None,
) -> JobPage:
    """Return the page of a job. `why`: the explanation why the job waits, if it waits."""
    is_over = job.finished is not None or job.state in st.FINISHED
    actions = []
    if not is_over:
        waits = not job.running and job.state == st.PENDING
        if waits:
            actions.append("release" if job.is_held else "hold")
        if job.state == st.ABORTED:
            actions.append("resume")
        else:
            actions.append("suspend")
        actions.append("cancel")
    return JobPage(
        job=job, why=why, is_over=is_over, actions=actions, steps=steps, array=array,
        uses=list(uses), last=last,
    )  # fmt: skip
