"""The commands `phalanx status`, `nodes`, `drain`, `undrain` and `set-resource`."""

from __future__ import annotations

import contextlib
import json as json_module
import sys
import time
from typing import Annotated

from phalanx.cli.cluster_view import as_data, listed_node_data, node_columns, status_text
from phalanx.cli.common_options import Address, Json
from phalanx.cli.draining import after_release, drain_at, drain_now, undrained
from phalanx.cli.ending import Ended
from phalanx.cli.listing import NoHeaders, Output, show
from phalanx.cli.node_names import Ids, find_named
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.rows.cluster import StatusInfo, current_nodes
from phalanx.protocol.requests.cluster import ChangeTotals, GetStatus, UndrainNode
from phalanx.protocol.requests.node_use import ListNodesInUse

_EVERY_S = 2.0
"""Seconds between two questions to the head with `--watch`."""
_CLEAR = "\x1b[H\x1b[2J"

Node = Annotated[str, Argument(help="Node: its id, the beginning of its id, or its name.")]


def status(
    address: Address = None,
    json: Json = False,
    watch: Annotated[
        bool,
        Option("--watch", "-w", help="Print the status again every two seconds, until Ctrl-C."),
    ] = False,
) -> None:
    """Show the head, the nodes, used resources, actors, placement groups and jobs."""
    say(_shown(ask(address, GetStatus()), json, is_short=watch))
    while watch:
        sys.stdout.flush()
        time.sleep(_EVERY_S)
        if sys.stdout.isatty() and not json:
            echo(_CLEAR, nl=False)
        elif not json:
            echo("")
        with contextlib.suppress(Ended):  # the error is printed; the head may be back soon
            say(_shown(ask(address, GetStatus()), json, is_short=True))


def _shown(found: StatusInfo, json: bool, is_short: bool) -> str:
    from phalanx import __version__

    if json:
        data = as_data(found, __version__)
        return json_module.dumps(data, indent=None if is_short else 1)
    return status_text(found, __version__)


def nodes(
    output: Output = "",
    no_headers: NoHeaders = False,
    ids: Ids = False,
    all: Annotated[
        bool,
        Option("--all", "-a", help="Also show dead nodes whose name a later node has or had."),
    ] = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """List all nodes, including nodes that died recently, with the reasons for their states.

    Each start of a node makes a new node, so several nodes may have had one
    name. If one of them lives, the dead ones are not shown; if all are dead, only
    the last is shown. --all shows all of them.

    CPU, GPU and MEMORY show allocated/total amounts. USED shows how many CPUs and
    GPUs were busy and how much memory was used at the last measurement, also by
    programs outside Phalanx.
    """
    found = ask(address, GetStatus())
    listed = found.nodes if all else current_nodes(found.nodes)
    in_use = ask(address, ListNodesInUse())
    if json:
        rows = [listed_node_data(row, found, in_use) for row in listed]
        echo(json_module.dumps(rows, indent=1))
    else:
        columns = node_columns(listed, found.stranded, in_use, ids)
        show(columns, listed, output, no_headers)


def drain(
    node: Node,
    reason: Annotated[
        str | None, Option(help="Reason to show to all users. Not with --at.")
    ] = None,
    at: Annotated[
        str | None,
        Option(
            help="Point in time at which draining begins: 18:00, now+2h or "
            "2027-01-31T18:00. Default: now."
        ),
    ] = None,
    length: Annotated[
        str | None,
        Option(
            "--for",
            help="With --at: length of time for which the node stays drained: 4h, 90s or 90 "
            "(minutes). Default: until `phalanx undrain`.",
        ),
    ] = None,
    deadline: Annotated[
        str | None,
        Option(
            help="Length of time after which work that still runs is ended: 2h, 90s or 90 "
            "(minutes). Default: work is not ended. Not with --at."
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Let nothing new start on a node; with --deadline, also end the work that still runs there at
    the deadline.

    Exit 3: no such node. Jobs that are ended at the deadline are queued again,
    and tasks are tried again elsewhere. With --at, jobs that could
    still run at that time do not start on the node. Without --deadline and --at,
    the command has the effect of `phalanx cordon`, but `phalanx undrain` ends it.
    """
    found = find_named(address, node)
    if at is not None or length is not None:
        if reason is not None:
            fail(
                "--reason cannot be combined with --at: it is for a node that drains at once.",
                USAGE,
            )
        if deadline is not None:
            fail(
                "--deadline cannot be combined with --at: it is for a node that drains at once.",
                USAGE,
            )
        drain_at(address, found, at, length)
        return
    drain_now(address, found, reason, deadline)


def undrain(node: Node, address: Address = None) -> None:
    """End the drain of a node, so that it takes new work again. A planned drain of the node is
    deleted.
    """
    found = find_named(address, node)
    did = undrained(address, found)
    is_new = ask(address, UndrainNode(found.node_id)) or did
    say(after_release(address, found, "takes work again" if is_new else "does not drain"))


def set_resource(
    node: Node,
    totals: Annotated[
        list[str],
        Argument(
            metavar="NAME=AMOUNT", help="Resources with their amounts, such as CPU=4 memory=64GiB."
        ),
    ],
    address: Address = None,
) -> None:
    """Set the amount of a resource that a node offers; 0 removes the resource.

    If running work uses more than the new amount, it goes on. No new work starts
    until the use is within the new amount.
    """
    from phalanx.manifests.sizes import read_amount

    amounts: dict[str, float] = {}
    for text in totals:
        name, _, value = text.rpartition("=")
        try:
            amounts[name] = read_amount(name, value)
        except ValueError:
            name = ""
        if not name:
            fail(f"A total is NAME=AMOUNT, such as CPU=4, not {text!r}.", USAGE)
    found = find_named(address, node)
    ask(address, ChangeTotals(found.node_id, amounts))
    say(f"Node {found.name} now offers {' '.join(totals)}.")
