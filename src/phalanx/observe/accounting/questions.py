"""Questions about the history of jobs, and their answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.model.attempts import Attempt
from phalanx.model.steps import RUNNING, Step
from phalanx.observe.accounting.sums import HourSum, total_of

MAX_ATTEMPTS = 10_000
"""The most attempts in one answer."""
MAX_NAMES = 100
"""The most users, queues or states in a question."""
USER, QUEUE, BOTH = "user", "queue", "both"
"""The groups for which sums have a row."""


class AttemptQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A question for attempts: all given conditions hold, each with one of its values.

    Times are in seconds since the epoch; the time of an attempt is its end.
    """

    since: float = 0.0
    until: float | None = None
    """Only attempts that ended before this time; None: no bound."""
    users: list[str] = []
    queues: list[str] = []
    states: list[str] = []
    job: str = ""
    """Only this job, `namespace/name`; for an array, all its array tasks."""
    limit: int = 1000
    """The most attempts to return, of which the last that ended are chosen; at most
    MAX_ATTEMPTS.
    """
    has_attempts: bool = True
    has_steps: bool = False
    """Whether to add steps, at most `limit` of them, including running ones, whose state is
    Running.
    """


class AttemptPage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Attempts, the last that ended first, and steps, running ones first. `is_cut`: more of them
    match than `limit`.
    """

    attempts: list[Attempt]
    is_cut: bool = False
    steps: list[Step] = []


class UsageQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A question for sums over the whole hours that begin in [since, until)."""

    since: float = 0.0
    until: float | None = None
    users: list[str] = []
    queues: list[str] = []


class UsageRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The sums of a user's jobs in a queue."""

    user: str
    queue: str
    sum: HourSum


def together(rows: Sequence[UsageRow], by: str) -> list[UsageRow]:
    """Return the rows summed by user or by queue; with BOTH, the rows themselves, sorted."""
    found: dict[tuple[str, str], list[HourSum]] = {}
    for row in rows:
        key = ("" if by == QUEUE else row.user, "" if by == USER else row.queue)
        found.setdefault(key, []).append(row.sum)
    return [
        UsageRow(user=user, queue=queue, sum=total_of(sums))
        for (user, queue), sums in sorted(found.items())
    ]


def is_step_meant(step: Step, query: AttemptQuery) -> bool:
    """Whether a question includes a running step."""
    job = f"{step.namespace}/{step.job}"
    return (
        query.has_steps
        and (not query.states or RUNNING in query.states)
        and query.job in ("", job, job.partition("[")[0])
        and (not query.users or step.user in query.users)
        and (not query.queues or step.queue in query.queues)
    )


def check_attempts(query: AttemptQuery) -> None:
    """Raise ValueError for an invalid question, with what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues, states=query.states)
    if not 1 <= query.limit <= MAX_ATTEMPTS:
        raise ValueError(f"limit must be 1 to {MAX_ATTEMPTS:,}, not {query.limit}")


def check_usage(query: UsageQuery) -> None:
    """Raise ValueError for an invalid question, with what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues)


def _check(since: float, until: float | None, **names: list[str]) -> None:
    if not since >= 0 or (until is not None and not until > since):
        raise ValueError(
            f"until ({until}) must be after since ({since}), and since must be 0 or more"
        )
    for name, values in names.items():
        if len(values) > MAX_NAMES:
            raise ValueError(f"{name} has {len(values)} values; at most {MAX_NAMES} are allowed")
