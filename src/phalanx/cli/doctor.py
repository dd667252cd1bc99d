"""The command `phalanx doctor`: problems of this machine, and their remedies."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from phalanx.cli.common_options import Json
from phalanx.cli.reach import FAILED
from phalanx.cli.table import in_lines, say, table

if TYPE_CHECKING:
    from phalanx.observe.machine_checks import Check

FORMAT = "phalanx-doctor/1"


def doctor(
    security: Annotated[
        bool, typer.Option("--security", help="Check only who can read or change private files.")
    ] = False,
    json: Json = False,
) -> None:
    """Check whether this machine can run Phalanx; start nothing.

    Exit 1: something is bad. `phalanx health` checks a cluster that runs.
    """
    from phalanx.cli.cluster_start import PORT, default_store
    from phalanx.observe.health import BAD
    from phalanx.observe.machine_checks import check_machine
    from phalanx.runtime.daemons.machine_facts import collect_facts

    found = check_machine(collect_facts(default_store(), PORT))
    if security:
        found = [one for one in found if one.is_security]
    if json:
        said = {"format": FORMAT, "checks": msgspec.to_builtins(found)}
        typer.echo(json_module.dumps(said, indent=1))
    else:
        say(checks_text(found))
    if any(one.state == BAD for one in found):
        raise typer.Exit(FAILED)


def checks_text(found: Sequence[Check]) -> str:
    """Return a table of findings, then the remedies."""
    lines = [table(("OF", "STATE", "WHAT"), [[one.what, one.state, one.said] for one in found])]
    for one in found:
        if one.cure:
            lines += ["", in_lines(f"{one.what}: {one.cure}")]
    return "\n".join(lines)
