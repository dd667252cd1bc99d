"""The commands `phalanx plan` and `phalanx what-if`: when pending work is expected to start."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from phalanx.cli.common_options import Address, Json
from phalanx.cli.node_names import Ids, names_of
from phalanx.cli.options import Option
from phalanx.cli.plan_view import plan_text
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.protocol.requests.gangs import ShowPlan


def plan(
    snapshot: Annotated[
        str | None, Option(help="Snapshot file to read, instead of the cluster's state.")
    ] = None,
    ids: Ids = False,
    address: Address = None,
    json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the forecast: when and where pending work is expected to start, and how full each node
    is over time.
    """
    from phalanx.cli.snapshots import plans_of

    found = [ask(address, ShowPlan())] if snapshot is None else plans_of(snapshot)
    if json:
        plain = [msgspec.to_builtins(one) for one in found]
        echo(json_module.dumps(plain[0] if len(plain) == 1 else plain, indent=1))
        return
    named: Callable[[str], str] = str
    if snapshot is None:
        named = names_of(address, [one.place.node for one in found[0].running], ids)
    for one in found:
        say(plan_text(one, named))


def what_if(
    add_nodes: Annotated[
        list[str] | None,
        Option(
            help="Empty nodes that are assumed to exist in addition: 2:NODE (two nodes like "
            "the node NODE) or 2:CPU=64,GPU=8 (two nodes with these amounts)."
        ),
    ] = None,
    remove_node: Annotated[
        list[str] | None, Option(help="Node that is assumed to be gone, by name or id.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        Option(help="Weight that a queue is assumed to have, as QUEUE=N, such as lab=3."),
    ] = None,
    submit: Annotated[
        list[Path] | None,
        Option(help="File with manifests whose jobs are assumed to be submitted."),
    ] = None,
    consolidate: Annotated[
        bool,
        Option(
            "--consolidate",
            help="Assume that the scheduler moves running jobs that may be "
            "moved (`phalanx run --movable`) to make room for waiting jobs.",
        ),
    ] = False,
    snapshot: Annotated[
        Path | None, Option(help="Snapshot file to read, instead of the cluster's state.")
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Compare expected start times with and without an assumed change. Nothing is changed or
    submitted.

    The options for nodes, weights and manifests may be repeated; all changes
    count together.
    """
    from phalanx.cli.comparison import compared, comparison_text

    if not (add_nodes or remove_node or weight or submit or consolidate):
        options = "--add-nodes, --remove-node, --weight, --submit or --consolidate"
        fail(f"No change to compare: give {options}.", USAGE)
    found = compared(
        address,
        snapshot,
        add_nodes=add_nodes or (),
        remove_nodes=remove_node or (),
        weights=weight or (),
        submit=submit or (),
        consolidates=consolidate,
    )
    if json:
        echo(json_module.dumps(msgspec.to_builtins(found), indent=1))
    else:
        say(comparison_text(found))
