"""The commands `phalanx job`, `flows`, `crons`, `hypernodes` and `snapshot`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from phalanx.cli.common_options import Address, Json, Name, rows_json
from phalanx.cli.job_view import crons_text, flows_text, hypernodes_text, job_text
from phalanx.cli.node_names import Ids, names_of
from phalanx.cli.options import Option
from phalanx.cli.reach import ask, fail
from phalanx.cli.table import echo, in_lines, say
from phalanx.model.jobs import states as st
from phalanx.observe.events import OF_PLACES, EventQuery
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import Explain, TakeSnapshot
from phalanx.protocol.requests.jobs import GetJob, ListCrons, ListFlows, ListHyperNodes


def job(name: Name, ids: Ids = False, address: Address = None, json: Json = False) -> None:
    """Show one job: its members, their nodes and devices, its history, and why it waits."""
    found = ask(address, GetJob(name))
    if json:
        echo(rows_json(found))
        return
    query = EventQuery(job=f"{found.namespace}/{found.name}", kinds=list(OF_PLACES))
    named = names_of(address, [member.node for member in found.members], ids)
    echo(job_text(found, ask(address, ListEvents(query)).events, named))
    if found.state in (st.PENDING, st.PREPARING):
        why = ask(address, Explain(f"{found.namespace}/{found.name}"))
        say(f"\n{in_lines(str(why))}")


def snapshot(
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="File to write. Default: standard output."),
    ] = None,
    address: Address = None,
) -> None:
    """Write the scheduler's state to a file, for `phalanx replay` and `phalanx explain`."""
    data = ask(address, TakeSnapshot())
    if output is None:
        echo(data.decode())
        return
    try:
        output.write_bytes(data + b"\n")
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def flows(address: Address = None, json: Json = False) -> None:
    """List flows with their progress, and with the state of each job in a flow."""
    rows = ask(address, ListFlows())
    echo(rows_json(rows) if json else flows_text(rows, time.time()))


def crons(address: Address = None, json: Json = False) -> None:
    """List cron jobs with their schedules and their running jobs."""
    rows = ask(address, ListCrons())
    echo(rows_json(rows) if json else crons_text(rows))


def hypernodes(ids: Ids = False, address: Address = None, json: Json = False) -> None:
    """List the domains of the network (hypernodes) and the nodes in each."""
    rows = ask(address, ListHyperNodes())
    if json:
        echo(rows_json(rows))
        return
    named = names_of(address, [node for row in rows for node in row.nodes], ids)
    echo(hypernodes_text(rows, named))
