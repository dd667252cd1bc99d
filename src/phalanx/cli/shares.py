"""The commands `phalanx shares`, `set-shares` and `priority`: the order within queues."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from phalanx.cli.common_options import Address, Json, rows_json
from phalanx.cli.layout import Column
from phalanx.cli.listing import NoHeaders, Output, fitted_table, show
from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import echo, say
from phalanx.model.readable import amount, duration
from phalanx.protocol.requests.shares import GetShares, SetShares

if TYPE_CHECKING:
    from phalanx.scheduler.cycle.waiting import WaitingGroup

_HOUR_S = 3600.0
_MANY = 1e5
"""From this number on, points are shown without a fraction. All their digits are shown."""
NOBODY = "-"
"""The name shown for work without a user."""


def shares(
    queue: Annotated[str, Argument(help="Show only this queue. Default: all queues.")] = "",
    output: Output = "",
    no_headers: NoHeaders = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show the shares, the recent use and the order of each queue's users.

    USE is in billing units × hours (unit-h), and older use counts less. HOLDS is
    in billing units. By default, a CPU counts as 1 billing unit and a GPU as 16;
    a job counts as its CPUs or its GPUs, whichever is more units. LEVEL is a user's
    fraction of all shares, divided by the user's fraction of all use. A LEVEL
    above 1 means that the user has used less than the user's share. RANK orders
    the users: among jobs of the same priority, those of the user with
    the largest RANK start first.
    """
    rows = ask(address, GetShares(queue))
    if json:
        echo(rows_json(rows))
    elif rows:
        show(COLUMNS, rows, output, no_headers)
    else:
        say("No user has used anything yet, and no shares are set (phalanx set-shares).")


def set_shares(
    queue: Annotated[str, Argument(help="Name of the queue.")],
    users: Annotated[
        list[str],
        Argument(
            metavar="USER=N...",
            help="Name of a user and the user's new number of shares, such as alice=3. USER= "
            "resets the user to the default, one share.",
        ),
    ],
    address: Address = None,
    json: Json = False,
) -> None:
    """Set users' shares in a queue. Jobs of users with 0 shares start after all other jobs of the
    same priority.
    """
    rows = ask(address, SetShares(queue, dict(map(_share, users))))
    if json:
        echo(rows_json(rows))
    else:
        show(COLUMNS, rows)


def priority(
    queue: Annotated[
        list[str] | None,
        Option("--queue", "-q", help="Show only jobs of this queue; may be repeated."),
    ] = None,
    user: Annotated[
        list[str] | None,
        Option("--user", "-u", help="Show only jobs of this user; may be repeated."),
    ] = None,
    snapshot: Annotated[
        Path | None, Option(help="Snapshot file to read, instead of the cluster.")
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show the order in which jobs wait in each queue, with the numbers that decide it.

    Jobs are ordered by PRIORITY, then by RANK, then by age. If the scheduler's
    configuration (phalanx scheduler show) has the plugin multifactor, TOTAL takes
    the place of RANK. The other columns show from what RANK or TOTAL was computed.
    """
    from phalanx.cli.snapshots import one_snapshot
    from phalanx.scheduler.cycle.waiting import waiting_groups

    found = [
        one
        for one in waiting_groups(one_snapshot(snapshot, address))
        if (not queue or one.queue in queue) and (not user or one.user in user)
    ]
    if json:
        echo(json_module.dumps([msgspec.to_builtins(one) for one in found], indent=1))
    elif found:
        echo(priority_text(found))
    else:
        say("No job waits.")


# ---- words ---------------------------------------------------------------------------------------


COLUMNS = (
    Column("user", lambda row: row.user or NOBODY),
    Column("queue", lambda row: row.queue),
    Column("shares", lambda row: amount(row.shares) + ("" if row.is_set else " (usual)"), 5, True),
    Column("part", lambda row: f"{row.part:.1%}", rank=4, is_right=True),
    Column("use", lambda row: _use(row.use), rank=2, is_right=True),
    Column("of-all", lambda row: f"{row.use_part:.1%}", rank=3, is_right=True),
    Column("level", lambda row: _level(row.level_fairshare), rank=6, is_right=True),
    Column("rank", lambda row: str(row.rank), is_right=True),
    Column("holds", lambda row: f"{amount(row.rate)} units", rank=1, is_right=True),
)
"""The columns of the listing of shares."""


def _use(use: float) -> str:
    """Return a use as text, in billing units × hours."""
    return f"{use / _HOUR_S:,.2f} unit-h"


def _level(level: float | None) -> str:
    return "-" if level is None else f"{level:.3f}"


def priority_text(found: Sequence[WaitingGroup]) -> str:
    """Return a table with one row per waiting gang, and a column for each factor of a plugin."""
    factors = list(dict.fromkeys(name for one in found for name in one.factors))
    heads = [name.replace("_", " ").upper() for name in factors]
    cells = [
        [
            one.queue,
            str(one.position),
            one.podgroup.removeprefix("default/"),
            one.user or NOBODY,
            str(one.priority),
            *(_factor(name, one.factors.get(name)) for name in factors),
            "-" if one.waited_s is None else duration(one.waited_s),
        ]
        for one in found
    ]
    head = ("QUEUE", "NEXT", "JOB", "USER", "PRIORITY", *heads, "WAITED")
    ranks = {name: rank for rank, name in enumerate(heads, start=3)} | {"PRIORITY": 2, "WAITED": 1}
    return fitted_table(head, cells, ranks, right=("NEXT", "PRIORITY", *heads, "WAITED"))


def _factor(name: str, number: float | None) -> str:
    if number is None:
        return "-"
    if name == "use":
        return _use(number)
    if name == "use_part":
        return f"{number:.1%}"
    return f"{number:.6g}" if abs(number) < _MANY else f"{number:.0f}"


def _share(word: str) -> tuple[str, float | None]:
    """Return the user and the shares in USER=N. Ends the command for any other text."""
    user, sign, number = word.rpartition("=")
    try:
        share = float(number) if number else None
        if not sign or not user or (share is not None and not math.isfinite(share)):
            raise ValueError
    except ValueError:
        fail(f"{word!r}: shares are USER=N, such as alice=3", USAGE)
    return user, share
