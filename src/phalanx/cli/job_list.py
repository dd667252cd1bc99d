"""The command `phalanx jobs`: one line for each job, or for each group of equal array tasks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from phalanx.cli.common_options import Address, Json, Watch, print_json, rows_json
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, listing
from phalanx.cli.node_names import Ids, names_of
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo
from phalanx.model.jobs import states as st
from phalanx.model.readable import amount, duration
from phalanx.model.rows.row import Row
from phalanx.model.rows.work import ArrayTaskInfo, JobInfo
from phalanx.observe.job_times import ran_s
from phalanx.protocol.requests.jobs import ListElements, ListJobs

_RECENT_S = 3_600.0
"""Seconds after its end for which a finished job is listed by default."""
_EVERY_S = 2.0
"""Seconds between two listings with `--watch`."""
_CLEAR = "\x1b[H\x1b[2J"


def full_name(row: JobInfo) -> str:
    """Return the name by which commands take a job: NAME or NAMESPACE/NAME."""
    return row.name if row.namespace == "default" else f"{row.namespace}/{row.name}"


def start_text(row: JobInfo) -> str:
    """Return the time until the expected start, with "?" if the start is not promised."""
    expected = row.expected_start
    if expected is None:
        return ""
    return f"in {duration(expected.in_s)}" + ("" if expected.is_promised else "?")


def _optional(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


JOBS = (
    Column("name", full_name),
    Column("queue", lambda row: row.queue, rank=5),
    Column("user", lambda row: row.user or "-", rank=9, is_usual=False),
    Column("state", lambda row: row.state),
    Column("kind", lambda row: row.kind, is_usual=False),
    Column("age", lambda row: duration(row.age_s), is_right=True, is_usual=False),
    Column(
        "time",
        lambda row: duration(ran_s(row)) if ran_s(row) or row.ends else "",
        rank=3,
        is_right=True,
    ),
    Column("limit", lambda row: _optional(row.time_limit_s), is_right=True, is_usual=False),
    Column("gpus", lambda row: amount(row.gpus) if row.gpus else "", rank=4, is_right=True),
    Column("replicas", lambda row: str(row.replicas), is_right=True, is_usual=False),
    Column("min", lambda row: str(row.min), is_right=True, is_usual=False),
    Column("pending", lambda row: str(row.pending), is_right=True, is_usual=False),
    Column("running", lambda row: str(row.running), is_right=True, is_usual=False),
    Column("succeeded", lambda row: str(row.succeeded), is_right=True, is_usual=False),
    Column("failed", lambda row: str(row.failed), is_right=True, is_usual=False),
    Column("retries", lambda row: str(row.retries), is_right=True, is_usual=False),
    Column(
        "position",
        lambda row: "" if row.position is None else str(row.position),
        is_right=True,
        is_usual=False,
    ),
    Column("start", start_text, rank=1),
    Column("reason", lambda row: "" if row.state == st.RUNNING else row.reason, 2, is_text=True),
)
"""The columns of `phalanx jobs`. Their ranks say which of them a narrow terminal leaves out first.
"""


def array_columns(name: Callable[[str], str]) -> list[Column]:
    """Return the columns for an array's tasks. `name` returns the display name of a node."""
    return [
        Column("name", lambda row: row.name),
        Column(
            "tasks",
            lambda row: str(row.elements),
            rank=2,
            is_right=True,
            earlier_name="elements",
        ),
        Column("state", lambda row: row.state),
        Column("exit", _exit, is_right=True),
        Column("starts", lambda row: str(row.starts), rank=3, is_right=True),
        Column("node", lambda row: name(row.node) if row.node else "", rank=1),
        Column("reason", lambda row: row.reason, rank=4, is_text=True),
    ]


def _exit(row: ArrayTaskInfo) -> str:
    return "" if row.exit_code is None else str(row.exit_code)


def jobs(
    name: Annotated[
        str | None,
        Argument(
            help="Name of one job. For an array, or for a part of it such as NAME[3-5], the array "
            "tasks are listed. Not with --queue and --state."
        ),
    ] = None,
    queue: Annotated[
        str | None, Option("--queue", "-q", help="List only the jobs of this queue.")
    ] = None,
    state: Annotated[
        str | None,
        Option("--state", "-s", help="List only jobs in this state, such as Pending."),
    ] = None,
    all_: Annotated[
        bool,
        Option(
            "--all",
            "-a",
            help="Also list jobs that finished more than an hour ago.",
        ),
    ] = False,
    output: Output = "",
    no_headers: NoHeaders = False,
    ids: Ids = False,
    address: Address = None,
    json: Json = False,
    watch: Watch = False,
) -> None:
    """List jobs, oldest first, or the array tasks of one array.

    Finished jobs are listed for an hour. --all and --state also list jobs that
    finished earlier, while the head keeps them. `phalanx history` also lists
    older jobs.
    """
    if name is not None and (queue is not None or state is not None):
        fail("NAME cannot be combined with --queue or --state.", USAGE)
    while True:
        columns, rows = _listed(address, name, queue, state, ids, is_whole=all_)
        if watch and not json and sys.stdout.isatty():
            echo(_CLEAR, nl=False)
        if json and watch:
            echo(rows_json(rows, None))
        elif json:
            print_json(rows)
        elif rows or output:
            echo(listing(columns, rows, output, no_headers))
        else:
            echo("No jobs.")
        if not watch:
            return
        sys.stdout.flush()
        time.sleep(_EVERY_S)


def _listed(
    address: str | None,
    name: str | None,
    queue: str | None,
    state: str | None,
    ids: bool,
    is_whole: bool,
) -> tuple[Sequence[Column], Sequence[Row]]:
    is_element = name is not None and "[" in name
    within_s = None if is_whole or name is not None or state is not None else _RECENT_S
    request = ListJobs(queue, state, name, within_s)
    found: list[JobInfo] = [] if is_element else ask(address, request)
    if name is None or not (is_element or found[0].array):
        return JOBS, found
    elements: list[ArrayTaskInfo] = ask(address, ListElements(name))
    return array_columns(names_of(address, [row.node for row in elements], ids)), elements
