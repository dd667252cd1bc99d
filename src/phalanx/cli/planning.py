"""`phalanx plan`: who starts when, on a cluster or in a snapshot file."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import msgspec
import typer

from phalanx.cli.jobs import Address
from phalanx.cli.plan_view import plan_text
from phalanx.cli.reach import ask
from phalanx.cli.snapshots import plans_of
from phalanx.cli.table import say
from phalanx.protocol.requests.gangs import ShowPlan


def plan(
    snapshot: Annotated[
        str | None, typer.Option(help="A snapshot file, instead of a cluster.")
    ] = None,
    address: Address = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
) -> None:
    """Show when what waits will start, and what each node holds until then."""
    found = [ask(address, ShowPlan())] if snapshot is None else plans_of(snapshot)
    if json:
        plain = [msgspec.to_builtins(one) for one in found]
        typer.echo(json_module.dumps(plain[0] if len(plain) == 1 else plain, indent=1))
        return
    for one in found:
        say(plan_text(one))
