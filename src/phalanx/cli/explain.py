"""The commands `phalanx explain` and `phalanx replay`: reasons why work waits, and replayed
decisions.
"""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Annotated

import msgspec

from phalanx.cli.common_options import Address
from phalanx.cli.ending import Ended
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import ask
from phalanx.cli.table import echo, in_lines, say

Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]


def replay(
    file: Annotated[Path, Argument(help="File with one snapshot or several.")],
    cycles: Annotated[int, Option(min=1, help="Number of cycles to run, one after another.")] = 1,
    json: Json = False,
) -> None:
    """Run a recorded scheduling cycle again and compare its decisions.

    Nothing is changed. Exit 1: the decisions differ from those in the file.
    """
    from phalanx.cli.snapshots import replay_file

    raise Ended(replay_file(str(file), as_json=json, cycles=cycles))


def explain(
    work: Annotated[
        str,
        Argument(help="Job, gang, flow or cron job of the cluster, or a snapshot file."),
    ],
    name: Annotated[
        str | None, Argument(help="Task or podgroup of the snapshot file. Default: all.")
    ] = None,
    actor: Annotated[
        bool, Option("--actor", help="Read WORK as the name or id of an actor.")
    ] = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Explain why a job, gang, task or actor waits, and which changes would let it start."""
    from phalanx.cli.snapshots import explain_file
    from phalanx.protocol.requests.actors import ExplainActor
    from phalanx.protocol.requests.gangs import Explain

    # os.path.exists, because Path.exists raises an error for a name that no file can have.
    if name is not None or os.path.exists(work) or work.endswith((".json", ".yaml", ".yml")):
        raise Ended(explain_file(work, name, as_json=json))
    answer = ask(address, ExplainActor(work) if actor else Explain(work))
    if json:
        echo(json_module.dumps(msgspec.to_builtins(answer), indent=1))
    else:
        say(in_lines(str(answer)))
