"""`phalanx history`, `efficiency` and `report`: what jobs used that have ended."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from phalanx.cli import accounting_view as view
from phalanx.cli.jobs import Address, Json
from phalanx.cli.periods import PAST, past_moment
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.table import say
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
"""A whole year of a large cluster takes a while."""
Since = Annotated[str, typer.Option("--since", "-S", help=f"From when on: {PAST}.")]
Until = Annotated[str | None, typer.Option("--until", "-E", help="Before when; now by default.")]
Users = Annotated[list[str] | None, typer.Option("--user", "-u", help="Of this user alone.")]
Queues = Annotated[list[str] | None, typer.Option("--queue", "-q", help="Of this queue alone.")]


_EVER = "1970-01-02"


def history(
    job: Annotated[str, typer.Argument(help="Of this job alone, or namespace/name.")] = "",
    since: Annotated[
        str | None,
        typer.Option("--since", "-S", help=f"From when on: {PAST}; 7d, of a job ever."),
    ] = None,
    until: Until = None,
    user: Users = None,
    queue: Queues = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help=f"Ended so: {', '.join(STATES)}.")
    ] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Steps of jobs instead, those that run too.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_ATTEMPTS, help="So many, the last that ended.")
    ] = 100,
    format: Annotated[
        str, typer.Option("--format", "-o", help=f"Columns with commas: {', '.join(view.HISTORY)}.")
    ] = view.USUAL,
    address: Address = None,
    json: Json = False,
) -> None:
    """List attempts of jobs that have ended, with what they used; the last ones at the end.

    With --steps what was run inside of jobs: by srun, `phalanx step` and `phalanx shell`.
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
        typer.echo(json_module.dumps(rows, indent=1))
        return
    if attempts or found:
        say(view.steps_text(found, time.time()) if steps else view.history_text(attempts, columns))
    else:
        say(f"No {'step' if steps else 'attempt'} of a job ended then that matches.")
    if page.is_cut:
        say(f"There are more before these: --limit is {limit} (at most {MAX_ATTEMPTS}).", err=True)


def efficiency_(
    job: Annotated[str, typer.Argument(help="The job's name, or namespace/name.")],
    address: Address = None,
    json: Json = False,
) -> None:
    """Say how well a job that has ended used its CPUs, memory and GPUs, as seff, with advice."""
    found, is_cut = efficiency_of(job, address)
    if found is None:
        fail(f"Nothing of a job {job} has ended yet that the history knows.", NOT_FOUND)
    if json:
        typer.echo(json_module.dumps(msgspec.structs.asdict(found), indent=1))
    else:
        say(view.efficiency_text(found, is_cut))


def efficiency_of(job: str, address: str | None) -> tuple[Efficiency | None, bool]:
    """(that of the last job of this name, None where nothing is known of one; whether it had more
    attempts than are asked for)."""
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
    by: Annotated[str, typer.Option(help="A row for each: user, queue or both.")] = BOTH,
    address: Address = None,
    json: Json = False,
) -> None:
    """Sum what jobs held, used and left idle, by user and queue, and how long they waited.

    Whole hours of the period count. Attempts count once they have ended.
    """
    if by not in (USER, QUEUE, BOTH):
        fail(f"--by is user, queue or both, not {by!r}.", USAGE)
    begin, end = _period(since, until)
    hour = 3600.0
    query = UsageQuery(since=begin // hour * hour, until=end, users=_names(user),
                       queues=_names(queue))  # fmt: skip
    found = ask(address, GetUsage(query), ANSWER_S)
    rows = together(found, by)
    if json:
        typer.echo(json_module.dumps([view.report_row(row) for row in rows], indent=1))
    elif rows:
        say(view.report_text(rows, by))
    else:
        say("No attempt of a job ended then that matches.")


def uid_of(job: str) -> str:
    """`namespace/name` of what people type; "" for nothing."""
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
    """Raises ValueError for one that there is not."""
    known = {name.lower(): name for name in (*STATES, RUNNING)}
    found = []
    for name in _names(given):
        if name.lower() not in known:
            near = nearest(name, list(STATES))
            raise ValueError(f"--state: no attempt ends {name!r}{near}; there are "
                             f"{', '.join(STATES)}")  # fmt: skip
        found.append(known[name.lower()])
    return found


def _names(given: Sequence[str] | None) -> list[str]:
    return [name for text in given or () for name in text.split(",") if name]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(history)
    app.command("efficiency")(efficiency_)
    app.command()(report)
