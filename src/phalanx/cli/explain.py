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
    file: Annotated[
        Path, Argument(help="File with one or more snapshots, as `phalanx snapshot` writes it.")
    ],
    cycles: Annotated[
        int, Option(min=1, help="Number of cycles to run one after another on each snapshot.")
    ] = 1,
    json: Json = False,
) -> None:
    """Run scheduling cycles on a snapshot file, and print what they decide. No cluster is changed.

    Exit 1: the file names expected decisions (`expect`), and the cycles decided
    otherwise.
    """
    from phalanx.cli.snapshots import replay_file

    raise Ended(replay_file(str(file), as_json=json, cycles=cycles))


def explain(
    work: Annotated[
        str,
        Argument(
            help="Name of a job, gang, flow or cron job (with --actor: of an actor), or path of a "
            "snapshot file."
        ),
    ],
    name: Annotated[
        str | None,
        Argument(help="Name of one task or podgroup (gang) in the snapshot file. Default: all."),
    ] = None,
    actor: Annotated[bool, Option("--actor", help="WORK is the name or id of an actor.")] = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Explain why a job, gang, flow, cron job or actor waits, and which changes would let it
    start.
    """
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
