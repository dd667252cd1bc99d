"""Queries of the history of jobs, and their answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.model.attempts import Attempt
from phalanx.model.steps import RUNNING, Step
from phalanx.observe.accounting.sums import HourSum, total_of

MAX_ATTEMPTS = 10_000
"""The largest number of attempts in one answer."""
MAX_NAMES = 100
"""The largest number of users, queues or states in a query."""
USER, QUEUE, BOTH = "user", "queue", "both"
"""The ways to group sums: a row for each user, for each queue, or for each user of each queue."""


class AttemptQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A query for attempts.

    It selects the attempts that meet all given conditions; of a condition with several values, one
    is enough. Times are in seconds since the epoch; the time of an attempt is its end.
    """

    since: float = 0.0
    until: float | None = None
    """Select only attempts that ended before this time; None for no bound."""
    users: list[str] = []
    queues: list[str] = []
    states: list[str] = []
    job: str = ""
    """Select only attempts of this job, `namespace/name`. For an array, select the attempts of all
    its array tasks.
    """
    limit: int = 1000
    """The number of attempts to return, at most MAX_ATTEMPTS. If more match, the latest attempts
    are returned.
    """
    has_attempts: bool = True
    has_steps: bool = False
    """Whether to add steps, at most `limit` of them. Running steps are included, with the state
    Running.
    """


class AttemptPage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The answer: attempts, the latest end first, and steps, with running steps first. `is_cut`:
    whether more attempts or steps match than `limit`.
    """

    attempts: list[Attempt]
    is_cut: bool = False
    steps: list[Step] = []


class UsageQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A query for sums over the whole hours that begin in [since, until)."""

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
    """Return the rows summed by user or by queue. With BOTH, return the rows in sorted order."""
    found: dict[tuple[str, str], list[HourSum]] = {}
    for row in rows:
        key = ("" if by == QUEUE else row.user, "" if by == USER else row.queue)
        found.setdefault(key, []).append(row.sum)
    return [
        UsageRow(user=user, queue=queue, sum=total_of(sums))
        for (user, queue), sums in sorted(found.items())
    ]


def is_step_meant(step: Step, query: AttemptQuery) -> bool:
    """Whether a query selects a running step."""
    job = f"{step.namespace}/{step.job}"
    return (
        query.has_steps
        and (not query.states or RUNNING in query.states)
        and query.job in ("", job, job.partition("[")[0])
        and (not query.users or step.user in query.users)
        and (not query.queues or step.queue in query.queues)
    )


def check_attempts(query: AttemptQuery) -> None:
    """Raise ValueError for an invalid query; the error says what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues, states=query.states)
    if not 1 <= query.limit <= MAX_ATTEMPTS:
        raise ValueError(f"limit must be 1 to {MAX_ATTEMPTS:,}, not {query.limit}")


def check_usage(query: UsageQuery) -> None:
    """Raise ValueError for an invalid query; the error says what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues)


def _check(since: float, until: float | None, **names: list[str]) -> None:
    if not since >= 0 or (until is not None and not until > since):
        raise ValueError(
            f"until ({until}) must be after since ({since}), and since must be 0 or more"
        )
    for name, values in names.items():
        if len(values) > MAX_NAMES:
            raise ValueError(f"{name} has {len(values)} values; at most {MAX_NAMES} are allowed")
