"""`phalanx shares`, `set-shares` and `priority`: whose turn it is within a queue, and why."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from phalanx.cli.jobs import Address, Json, rows_json
from phalanx.cli.reach import USAGE, ask, fail
from phalanx.cli.table import say, table
from phalanx.model.readable import age, amount
from phalanx.model.rows.shares import ShareInfo
from phalanx.protocol.requests.shares import GetShares, SetShares

if TYPE_CHECKING:
    from phalanx.scheduler.cycle.waiting import WaitingGroup

_HOUR_S = 3600.0
_NUMBERS = ("SHARES", "PART", "USE", "OF ALL", "LEVEL", "RANK", "HOLDS")
NOBODY = "-"
"""Stands for work of which nobody said whose it is."""


def shares(
    queue: Annotated[str, typer.Argument(help="Only this queue.")] = "",
    address: Address = None,
    json: Json = False,
) -> None:
    """Show what the users of each queue used of their shares lately, and who is next.

    USE is in hours of billing units, half of which is forgotten after each half-life. LEVEL is a
    user's part of the shares over the part of the use: above 1 is less than the share. The highest
    RANK is next.
    """
    rows = ask(address, GetShares(queue))
    if json:
        typer.echo(rows_json(rows))
    elif rows:
        typer.echo(shares_text(rows))
    else:
        say("Nobody has used anything yet, and no shares are set (phalanx set-shares).")


def set_shares(
    queue: Annotated[str, typer.Argument(help="Of this queue.")],
    users: Annotated[
        list[str], typer.Argument(help="USER=N, as alice=3; USER= takes what was said back.")
    ],
    address: Address = None,
    json: Json = False,
) -> None:
    """Give users of a queue more or fewer shares than one; 0: they come last."""
    rows = ask(address, SetShares(queue, dict(map(_share, users))))
    if json:
        typer.echo(rows_json(rows))
    else:
        typer.echo(shares_text(rows))


def priority(
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Only this queue.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", "-u", help="Only of this user.")
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option(help="A snapshot file, instead of a cluster.")
    ] = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show in which order jobs wait in each queue, and every number that the order rests on.

    Its place is by PRIORITY, then by what the other columns say, then by age, as the rules have it
    (phalanx scheduler show).
    """
    from phalanx.cli.snapshots import one_snapshot
    from phalanx.scheduler.cycle.waiting import waiting_groups

    found = [
        one
        for one in waiting_groups(one_snapshot(snapshot, address))
        if (not queue or one.queue in queue) and (not user or one.user in user)
    ]
    if json:
        typer.echo(json_module.dumps([msgspec.to_builtins(one) for one in found], indent=1))
    elif found:
        typer.echo(priority_text(found))
    else:
        say("Nothing waits.")


# ---- words ---------------------------------------------------------------------------------------


def shares_text(rows: Sequence[ShareInfo]) -> str:
    """A row a user."""
    cells = [
        [
            row.queue,
            row.user or NOBODY,
            amount(row.shares) + ("" if row.is_set else " (usual)"),
            f"{row.part:.1%}",
            f"{row.use / _HOUR_S:,.2f}",
            f"{row.use_part:.1%}",
            "-" if row.level_fairshare is None else f"{row.level_fairshare:.3f}",
            str(row.rank),
            amount(row.rate),
        ]
        for row in rows
    ]
    return table(("QUEUE", "USER", *_NUMBERS), cells, right=_NUMBERS)


def priority_text(found: Sequence[WaitingGroup]) -> str:
    """A row a podgroup, and a column for whatever plugins say."""
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
            "-" if one.waited_s is None else age(one.waited_s),
        ]
        for one in found
    ]
    head = ("QUEUE", "NEXT", "JOB", "USER", "PRIORITY", *heads, "AGE")
    return table(head, cells, right=("NEXT", "PRIORITY", *heads, "AGE"))


def _factor(name: str, number: float | None) -> str:
    if number is None:
        return "-"
    if name == "use":
        return f"{number / _HOUR_S:,.2f}h"
    return f"{number:.1%}" if name == "use_part" else f"{number:.6g}"


def _share(word: str) -> tuple[str, float | None]:
    """Of USER=N. Ends the command for what is none."""
    user, sign, number = word.rpartition("=")
    try:
        share = float(number) if number else None
        if not sign or not user or (share is not None and not math.isfinite(share)):
            raise ValueError
    except ValueError:
        fail(f"{word!r}: shares are USER=N, as alice=3", USAGE)
    return user, share
