"""The commands `phalanx history`, `efficiency` and `report`: what finished jobs used."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from phalanx.cli import accounting_view as view
from phalanx.cli.common_options import Address, Json
from phalanx.cli.listing import NoHeaders, listing
from phalanx.cli.options import Argument, Option
from phalanx.cli.periods import PAST, past_moment
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.attempts import STATES
from phalanx.model.nearest import nearest
from phalanx.model.steps import RUNNING
from phalanx.observe.accounting.efficiency import Efficiency, efficiency
from phalanx.observe.accounting.questions import (
    BOTH,
    MAX_ATTEMPTS,
    QUEUE,
    USER,
    AttemptQuery,
    UsageQuery,
    together,
)
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts

ANSWER_S = 60.0
"""Seconds for which commands wait for an answer. Adding up a year of a large cluster takes long."""
_LOOKED_THROUGH = 1000
"""An unknown name is compared with the names of this number of recent attempts, to suggest the
nearest one.
"""
Since = Annotated[str, Option("--since", "-S", help=f"Beginning of the period: {PAST}.")]
Until = Annotated[
    str | None,
    Option("--until", "-E", help="End of the period, written like --since. Default: now."),
]
Users = Annotated[
    list[str] | None,
    Option("--user", "-u", help="Show only jobs of this user, or of several users: ann,ben."),
]
Queues = Annotated[
    list[str] | None,
    Option("--queue", "-q", help="Show only jobs of this queue, or of several queues: lab,prod."),
]


_EVER = "1970-01-02"
"""The beginning of the period if a job is named and no period is given."""


def history(
    job: Annotated[str, Argument(help="Show only this job: NAME or NAMESPACE/NAME.")] = "",
    since: Annotated[
        str | None,
        Option(
            "--since",
            "-S",
            help=f"Beginning of the period: {PAST}. Default: 7d, or no limit if JOB is given.",
        ),
    ] = None,
    until: Until = None,
    user: Users = None,
    queue: Queues = None,
    state: Annotated[
        list[str] | None,
        Option(
            "--state",
            "-s",
            help="Show only attempts that ended in this state (may be repeated): "
            f"{', '.join(STATES)}. Terminated means cancelled, and Aborted means suspended.",
        ),
    ] = None,
    steps: Annotated[
        bool,
        Option("--steps", help="List steps of jobs instead of attempts, including running steps."),
    ] = False,
    limit: Annotated[
        int,
        Option(
            min=1,
            max=MAX_ATTEMPTS,
            help="Maximum number of rows; the attempts that ended last are shown.",
        ),
    ] = 100,
    format: Annotated[
        str,
        Option(
            "--format",
            "-o",
            show_default=False,
            help=f"Columns to show, separated by commas, or `all`: {', '.join(view.HISTORY)}. "
            "cpu-p95: the number of CPUs in use, 95th percentile. mem-max: the largest memory in "
            "use. gpu-idle: the time during which GPUs were idle, summed over GPUs. "
            f"Default: {view.USUAL.replace(',', ', ')}.",
        ),
    ] = view.USUAL,
    no_headers: NoHeaders = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List finished attempts of jobs and what they used, the newest last.

    Steps (--steps) are the programs that srun, `phalanx step` and `phalanx shell`
    ran inside jobs.
    """
    begin, end = _period(since or (_EVER if job else "7d"), until)
    try:
        columns = view.columns_of(format)
        states = _states(state or [])
    except ValueError as error:
        fail(str(error), USAGE)
    query = AttemptQuery(
        since=begin,
        until=end,
        users=_names(user),
        queues=_names(queue),
        states=states,
        job=uid_of(job),
        limit=limit,
        has_attempts=not steps,
        has_steps=steps,
    )
    page = ask(address, ListAttempts(query), ANSWER_S)
    attempts, found = page.attempts[::-1], page.steps[::-1]
    if json:
        rows = [msgspec.structs.asdict(one) for one in found] if steps else [
            view.plain(one) for one in attempts
        ]  # fmt: skip
        echo(json_module.dumps(rows, indent=1))
        return
    if attempts or found:
        if steps:
            say(view.steps_text(found, time.time()))
        else:
            chosen = view.history_columns(columns)
            fits = format == view.USUAL
            echo(listing(chosen, attempts, "" if fits else ",".join(columns), no_headers))
    else:
        say(f"No matching {'step' if steps else 'attempt'} of a job ended in this period.")
    if page.is_cut:
        say(f"There are earlier ones: --limit is {limit} (at most {MAX_ATTEMPTS}).", err=True)


def efficiency_(
    job: Annotated[str, Argument(help="Name of the job: NAME or NAMESPACE/NAME.")],
    address: Address = None,
    json: Json = False,
) -> None:
    """Show how well a finished job used its CPUs, memory and GPUs, with advice (like seff)."""
    found, is_cut = efficiency_of(job, address)
    if found is None:
        recent = ask(address, ListAttempts(AttemptQuery(limit=_LOOKED_THROUGH)), ANSWER_S).attempts
        near = nearest(job.removeprefix("default/"), [one.job for one in recent]) or "."
        fail(f"The history has no finished attempt of a job {job}{near}", NOT_FOUND)
    if json:
        echo(json_module.dumps(msgspec.structs.asdict(found), indent=1))
    else:
        say(view.efficiency_text(found, is_cut))


def efficiency_of(job: str, address: str | None) -> tuple[Efficiency | None, bool]:
    """Return the efficiency of the last job with this name, and whether the head left out older
    attempts. The efficiency is None if the history has no finished attempt of the job.
    """
    page = ask(address, ListAttempts(AttemptQuery(job=uid_of(job), limit=MAX_ATTEMPTS)), ANSWER_S)
    if not page.attempts:
        return None, False
    last = page.attempts[0].submitted
    return efficiency([one for one in page.attempts if one.submitted == last]), page.is_cut


def report(
    since: Since = "7d",
    until: Until = None,
    user: Users = None,
    queue: Queues = None,
    by: Annotated[str, Option(help="Group the rows by user, queue or both.")] = BOTH,
    address: Address = None,
    json: Json = False,
) -> None:
    """Sum up, by user and queue, what jobs held, used and left idle, and how long they waited.

    The beginning of the period is rounded down to a full hour. The report counts
    only attempts that have ended.
    """
    if by not in (USER, QUEUE, BOTH):
        fail(f"--by takes user, queue or both, not {by!r}.", USAGE)
    begin, end = _period(since, until)
    hour = 3600.0
    query = UsageQuery(since=begin // hour * hour, until=end, users=_names(user),
                       queues=_names(queue))  # fmt: skip
    found = ask(address, GetUsage(query), ANSWER_S)
    rows = together(found, by)
    if json:
        echo(json_module.dumps([view.report_row(row) for row in rows], indent=1))
    elif rows:
        say(view.report_text(rows, by))
    else:
        say("No matching attempt of a job ended in this period.")


def uid_of(job: str) -> str:
    """Return `namespace/name` for the name of a job as users type it; "" for an empty name."""
    return job if "/" in job or not job else f"default/{job}"


def _period(since: str, until: str | None) -> tuple[float, float | None]:
    now = time.time()
    try:
        begin = max(past_moment(since, now), 0.0)
        end = None if until is None else past_moment(until, now)
    except ValueError as error:
        fail(f"--since and --until: {error}.", USAGE)
    if end is not None and end <= begin:
        fail(f"--until ({until}) is not after --since ({since}).", USAGE)
    return begin, end


def _states(given: Sequence[str]) -> list[str]:
    """Return names of states as the history spells them. Raises ValueError for an unknown name."""
    known = {name.lower(): name for name in (*STATES, RUNNING)}
    found = []
    for name in _names(given):
        if name.lower() not in known:
            near = nearest(name, list(STATES))
            raise ValueError(f"--state: no attempt ends in state {name!r}{near}; the states are "
                             f"{', '.join(STATES)}")  # fmt: skip
        found.append(known[name.lower()])
    return found


def _names(given: Sequence[str] | None) -> list[str]:
    return [name for text in given or () for name in text.split(",") if name]
