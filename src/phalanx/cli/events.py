"""The command `phalanx events`: what happened in a cluster, who caused it, and why."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from phalanx.cli.common_options import Address
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, show
from phalanx.cli.options import Option
from phalanx.cli.periods import PAST, past_moment
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say, table
from phalanx.cli.times import moment
from phalanx.model.rows.events import EventInfo
from phalanx.observe.events import (
    KINDS,
    MAX_EVENTS,
    EventQuery,
    check_events,
    details,
    subject,
    user_of,
)
from phalanx.protocol.requests.events import ListEvents

FORMAT = "phalanx-event/1"
_EVERY_S = 1.0
"""Seconds between two questions to the head with `--follow`."""


def events(
    job: Annotated[
        str,
        Option(
            "--job",
            "-j",
            help="Show only events of this job or gang, and of the work that it preempted.",
        ),
    ] = "",
    node: Annotated[
        str,
        Option(
            "--node",
            "-n",
            help="Show only events of this node (host name or id) and of members on it.",
        ),
    ] = "",
    queue: Annotated[str, Option("--queue", "-q", help="Show only events of this queue.")] = "",
    user: Annotated[
        str,
        Option(
            "--user", "-u", help="Show only events of this user's jobs and of this user's requests."
        ),
    ] = "",
    kind: Annotated[
        list[str] | None,
        Option(
            "--kind",
            "-k",
            help="Show only events of this kind, such as preempted; `node` stands for all kinds "
            "of events of nodes. May be repeated.",
        ),
    ] = None,
    since: Annotated[
        str, Option("--since", "-S", help=f"Show only events from this time on: {PAST}.")
    ] = "",
    until: Annotated[
        str,
        Option("--until", "-E", help="Show only events before this time, written like --since."),
    ] = "",
    limit: Annotated[
        int,
        Option(min=1, max=MAX_EVENTS, help="Maximum number of events; the newest are shown."),
    ] = 1_000,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Print new events as they happen, until Ctrl-C.")
    ] = False,
    kinds: Annotated[
        bool, Option("--kinds", help="List the kinds of events and what they mean.")
    ] = False,
    output: Output = "",
    no_headers: NoHeaders = False,
    address: Address = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List events of jobs, gangs, nodes, queues, reservations and the head, oldest first.

    Changes of the scheduler's configuration are events of the head. The head
    keeps the newest 8,000 events of jobs and gangs, and the newest 2,000 other
    events. With a store, the events survive restarts of the head.
    """
    if kinds:
        say(table(("EVENT", "MEANS"), list(KINDS.items())))
        return
    query = EventQuery(
        job=job, node=node, queue=queue, user=user, kinds=kind or [], limit=limit,
        since=_moment("since", since) or 0.0, until=_moment("until", until),
    )  # fmt: skip
    try:
        check_events(query)
    except ValueError as error:
        fail(f"{error}.", USAGE)
    page = ask(address, ListEvents(query))
    if page.events or not follow:
        _print(page.events, as_json=json, is_first=True, output=output, no_headers=no_headers)
    if page.is_cut:
        say(f"There are earlier events: --limit is {limit} (at most {MAX_EVENTS}).", err=True)
    while follow:
        time.sleep(_EVERY_S)
        newer = msgspec.structs.replace(query, after=page.newest, limit=MAX_EVENTS)
        page = ask(address, ListEvents(newer))
        _print(page.events, as_json=json, is_first=False, output=output, no_headers=no_headers)


def _moment(option: str, given: str) -> float | None:
    if not given:
        return None
    try:
        return past_moment(given, time.time())
    except ValueError as error:
        fail(f"--{option}: {error}.", USAGE)


def _print(
    found: Sequence[EventInfo], *, as_json: bool, is_first: bool, output: str, no_headers: bool
) -> None:
    if as_json:
        for event in found:
            echo(json_module.dumps({"format": FORMAT, **event.as_dict()}))
    elif found:
        show(COLUMNS, found, output, no_headers or not is_first)
    elif is_first:
        say("No such event happened lately.")


COLUMNS = (
    Column("time", lambda one: moment(one.at), rank=2),
    Column("event", lambda one: one.kind),
    Column("of", subject, rank=1),
    Column("queue", lambda one: one.queue or "-", rank=4),
    Column("user", lambda one: user_of(one) or "-", rank=5),
    Column("what", details, rank=3, is_text=True),
)
"""The columns of the listing of events."""
