"""What is asked of the history of jobs, and what is answered."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phalanx.model.attempts import Attempt
from phalanx.model.steps import RUNNING, Step
from phalanx.observe.accounting.sums import HourSum, total_of

MAX_ATTEMPTS = 10_000
"""In one answer."""
MAX_NAMES = 100
"""Of users, queues or states in a question."""
USER, QUEUE, BOTH = "user", "queue", "both"
"""What sums have a row for."""


class AttemptQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Which attempts: all conditions that are given hold, each with one of its values. Moments are
    in seconds since the epoch; an attempt belongs to the moment of its end."""

    since: float = 0.0
    until: float | None = None
    """Before that; None: without end."""
    users: list[str] = []
    queues: list[str] = []
    states: list[str] = []
    job: str = ""
    """Of this job alone, `namespace/name`; of an array with all its elements."""
    limit: int = 1000
    """So many, the last that ended; at most MAX_ATTEMPTS."""
    has_attempts: bool = True
    has_steps: bool = False
    """Steps, too, as many at most; also those that run: their state is Running."""


class AttemptPage(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Attempts, the last that ended first, and steps, those that run before. `is_cut`: there are
    more than were asked for."""

    attempts: list[Attempt]
    is_cut: bool = False
    steps: list[Step] = []


class UsageQuery(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Which sums: of the whole hours that begin in [since, until)."""

    since: float = 0.0
    until: float | None = None
    users: list[str] = []
    queues: list[str] = []


class UsageRow(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """What a user's jobs of a queue came to."""

    user: str
    queue: str
    sum: HourSum


def together(rows: Sequence[UsageRow], by: str) -> list[UsageRow]:
    """Rows of the same user, or of the same queue, as one; by BOTH: as they are, in order."""
    found: dict[tuple[str, str], list[HourSum]] = {}
    for row in rows:
        key = ("" if by == QUEUE else row.user, "" if by == USER else row.queue)
        found.setdefault(key, []).append(row.sum)
    return [
        UsageRow(user=user, queue=queue, sum=total_of(sums))
        for (user, queue), sums in sorted(found.items())
    ]


def is_step_meant(step: Step, query: AttemptQuery) -> bool:
    """Whether a question is for a step that runs."""
    job = f"{step.namespace}/{step.job}"
    return (
        query.has_steps
        and (not query.states or RUNNING in query.states)
        and query.job in ("", job, job.partition("[")[0])
        and (not query.users or step.user in query.users)
        and (not query.queues or step.queue in query.queues)
    )


def check_attempts(query: AttemptQuery) -> None:
    """Raises ValueError for a question that is none, with what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues, states=query.states)
    if not 1 <= query.limit <= MAX_ATTEMPTS:
        raise ValueError(f"limit is 1 to {MAX_ATTEMPTS:,}, not {query.limit}")


def check_usage(query: UsageQuery) -> None:
    """Raises ValueError for a question that is none, with what is allowed."""
    _check(query.since, query.until, users=query.users, queues=query.queues)


def _check(since: float, until: float | None, **names: list[str]) -> None:
    if not since >= 0 or (until is not None and not until > since):
        raise ValueError(f"until ({until}) is after since ({since}), and since is 0 or more")
    for name, values in names.items():
        if len(values) > MAX_NAMES:
            raise ValueError(f"{name} has {len(values)} values; {MAX_NAMES} are most")
