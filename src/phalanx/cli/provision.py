"""The command `phalanx provision`: starts machines when work needs them, and ends idle machines."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from phalanx.cli.common_options import HeadAddress
from phalanx.cli.options import Argument, Option
from phalanx.cli.provisioning.booting import BootingFile
from phalanx.cli.provisioning.pools import read_pools
from phalanx.cli.provisioning.rounds import Provisioner, loose_demands
from phalanx.cli.reach import ANSWER_S, USAGE, fail
from phalanx.cli.table import echo
from phalanx.errors import PhalanxError
from phalanx.manifests.times import read_length
from phalanx.model.lifecycle import PENDING_CREATION, PENDING_NODE
from phalanx.observe.state.query import StateQuery
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.gangs import TakeSnapshot
from phalanx.protocol.requests.request import Request
from phalanx.protocol.requests.state import QueryState
from phalanx.runtime.daemons.finding import ask_cluster
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.storage.errors import StorageInUseError

R = TypeVar("R")

_MOST_DEMANDS = 1_000
"""The number of waiting tasks, and of waiting actors, that one round looks at."""
_WAITING = {"tasks": PENDING_NODE, "actors": PENDING_CREATION}
"""The name of the state in which work waits for a node, by kind of work."""


def provision(
    file: Annotated[
        Path,
        Argument(
            help="TOML file with the pools of machines and the programs that start and "
            "end them; see docs/howto/elastic-nodes.md."
        ),
    ],
    once: Annotated[
        bool, Option("--once", help="Look at the cluster once, start or end machines, and exit.")
    ] = False,
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Print which machines would be started or ended now, and exit."),
    ] = False,
    every: Annotated[
        str, Option(help="Time between two looks at the cluster: 10s, 1m or 1 (minute).")
    ] = "10s",
    address: HeadAddress = None,
) -> None:
    """Start machines when work waits for nodes, and end idle machines. FILE names the programs that
    start and end machines.

    The command runs until it gets SIGTERM or Ctrl-C. Its user needs the right to
    drain nodes.
    """
    try:
        pools = read_pools(file.read_text(encoding="utf-8"))
        every_s = read_length(every)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(f"{file}: {reason}", USAGE)
    try:
        booting = None if dry_run else BootingFile(str(file))
    except (OSError, StorageInUseError) as error:
        fail(str(error))
    provisioner = Provisioner(
        pools, booting, lambda request: _ask(address, request), _say, time.monotonic()
    )
    while True:
        try:
            _round(provisioner, address)
        except (ConnectionError, TimeoutError) as error:
            if once or dry_run:
                fail(str(error))
            _say(f"the head cannot be asked, and is asked again: {error}")
        except (PhalanxError, ValueError) as error:
            fail(str(error))
        if once or dry_run:
            return
        time.sleep(every_s)


def _round(provisioner: Provisioner, address: str | None) -> None:
    """Run one round. If the head does not answer now, the next round asks it again."""
    _ask(address, provisioner.declare())
    status = _ask(address, GetStatus())
    text = _ask(address, TakeSnapshot(has_past_runs=True)).decode()
    (snapshot,) = read_snapshots(text, known_plugins(), "the cluster")
    rows = [row for kind, state in _WAITING.items() for row in _rows(address, kind, state)]
    provisioner.round(status, snapshot, loose_demands(rows), time.monotonic())
    _ask(address, provisioner.declare())


def _rows(address: str | None, kind: str, state: str) -> list[dict[str, Any]]:
    query = StateQuery(kind, [("state", "=", state)], _MOST_DEMANDS, True)
    return _ask(address, QueryState(query)).part.rows


def _ask(address: str | None, request: Request[R]) -> R:
    return ask_cluster(address, request, ANSWER_S)


def _say(text: str) -> None:
    echo(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}")
