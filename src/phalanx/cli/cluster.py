"""`phalanx status`, `nodes`, `drain`, `set-resource`: a running cluster, seen and changed."""

from __future__ import annotations

import contextlib
import json as json_module
import sys
import time
from typing import Annotated

import typer

from phalanx.cli.cluster_view import as_data, node_data, nodes_text, status_text
from phalanx.cli.draining import after_release, drain_at, drain_now, undrained
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.cli.table import say
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import StatusInfo
from phalanx.protocol.requests.cluster import ChangeTotals, GetStatus, UndrainNode

_EVERY_S = 2.0
_CLEAR = "\x1b[H\x1b[2J"

Address = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of the head, or ray:auto (PHALANX_ADDRESS, or the one here)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Node = Annotated[str, typer.Argument(help="Its id, or how that begins.")]


def status(
    address: Address = None,
    json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again every two seconds, until Ctrl-C.")
    ] = False,
) -> None:
    """Show a cluster: its nodes, what is used, actors, placement groups, jobs."""
    say(_shown(ask(address, GetStatus()), json, is_short=watch))
    while watch:
        sys.stdout.flush()
        time.sleep(_EVERY_S)
        if sys.stdout.isatty() and not json:
            typer.echo(_CLEAR, nl=False)
        elif not json:
            typer.echo()
        with contextlib.suppress(typer.Exit):  # it said why; the head may be back soon
            say(_shown(ask(address, GetStatus()), json, is_short=True))


def _shown(found: StatusInfo, json: bool, is_short: bool) -> str:
    from phalanx import __version__

    if json:
        data = as_data(found, __version__)
        return json_module.dumps(data, indent=None if is_short else 1)
    return status_text(found, __version__)


def nodes(address: Address = None, json: Json = False) -> None:
    """List all nodes, the dead of late too, and why they are as they are."""
    found = ask(address, GetStatus())
    if json:
        typer.echo(json_module.dumps([node_data(row, found) for row in found.nodes], indent=1))
    else:
        typer.echo(nodes_text(found.nodes, found.stranded))


def drain(
    node: Node,
    reason: Annotated[
        str | None, typer.Option(help="Shown to everybody, of a node that drains at once.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="From then on: 18:00, now+2h, 2027-01-31T18:00.")
    ] = None,
    length: Annotated[
        str | None, typer.Option("--for", help="With --at: so long, like 4h; else until undrain.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(help="End what still runs there after so long, like 2h: it runs again."),
    ] = None,
    address: Address = None,
) -> None:
    """Give a node nothing new; what runs there goes on. Exit 3 when there is no such node.

    With --deadline what still runs then is ended: jobs wait again, tasks are tried again elsewhere.
    With --at it drains from then on: jobs that would run into it do not start there.
    """
    node_id = find_node(address, node)
    if at is not None or length is not None:
        if reason is not None:
            fail("--reason is shown of a node that drains at once, and --at has it wait.", USAGE)
        if deadline is not None:
            fail("--deadline is for a node that drains at once, and --at has it wait.", USAGE)
        drain_at(address, node_id, at, length)
        return
    drain_now(address, node_id, reason, deadline)


def undrain(node: Node, address: Address = None) -> None:
    """Give a node new work again, and forget when it was to drain."""
    node_id = find_node(address, node)
    did = undrained(address, node_id)
    is_new = ask(address, UndrainNode(node_id)) or did
    say(after_release(address, node_id, "takes work again" if is_new else "does not drain"))


def set_resource(
    node: Node,
    totals: Annotated[list[str], typer.Argument(help="NAME=AMOUNT, one or more.")],
    address: Address = None,
) -> None:
    """Set what a node has of a resource from now on; 0 takes it away.

    It may be less than is in use: what runs goes on, and nothing more starts until it is back
    within the total.
    """
    amounts: dict[str, float] = {}
    for text in totals:
        name, _, value = text.rpartition("=")
        try:
            amounts[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            fail(f"A total is NAME=AMOUNT, as CPU=4, not {text!r}.", USAGE)
    node_id = find_node(address, node)
    ask(address, ChangeTotals(node_id, amounts))
    say(f"Node {node_id} has {' '.join(totals)}.")


def find_node(address: str | None, beginning: str) -> str:
    """The id of the only living node whose id begins so, or else whose machine is called so; a dead
    one only when its id is there in full."""
    known = {row.node_id: row for row in ask(address, GetStatus()).nodes}
    if beginning in known:
        return beginning
    living = [row for row in known.values() if row.state != DEAD]
    alive = [row.node_id for row in living if row.node_id.startswith(beginning)]
    alive = alive or [row.node_id for row in living if row.hostname == beginning]
    if not alive:
        fail(
            f"No living node's id begins with {beginning!r}, and no machine is called so: "
            "`phalanx nodes` lists them.",
            NOT_FOUND,
        )
    if len(alive) > 1:
        fail(f"{len(alive)} nodes are meant by {beginning!r}: {', '.join(alive)}.", USAGE)
    return alive[0]
