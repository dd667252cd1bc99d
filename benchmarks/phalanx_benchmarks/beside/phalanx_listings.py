"""Reads what `phalanx shares` and `phalanx priority` print, in the forms in which `history_rows`
reads `sshare -l -a` and `sprio -l -h`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from phalanx_benchmarks.beside.histories import Key
from phalanx_benchmarks.beside.history_rows import Listed, Users

SHARES = "phalanx shares"
SHARES_JSON = "phalanx shares --json"
PRIORITY = "phalanx priority"


def users_in(text: str) -> Users:
    """Read the users of `phalanx shares --json`, with all digits of their use."""
    rows = json.loads(text)
    used = sum(row["use"] for row in rows)
    most: dict[str, int] = {}
    for row in rows:
        most[row["queue"]] = max(most.get(row["queue"], 0), row["rank"])
    return {
        (row["queue"], row["user"]): Listed(
            shares=f"{row['shares']:g}",
            norm_shares=f"{row['part']:.6f}",
            use=row["use"],
            norm_use=row["use"] / used if used else 0.0,
            part=row["use_part"],
            fairshare=row["rank"] / most[row["queue"]],
            level=math.inf if row["level_fairshare"] is None else row["level_fairshare"],
        )
        for row in rows
    }


def table_of_shares(text: str) -> dict[Key, dict[str, str]]:
    """Read the table of `phalanx shares`: the cells of each user, by the columns' heads."""
    found = {}
    for cells in _rows(text.replace(" (usual)", "")):
        found[cells["QUEUE"], cells["USER"]] = cells
    return found


def shares_in_percent(users: Users) -> str:
    """Return the shares of all users, and their parts as `phalanx shares` rounds them."""
    rows = sorted(users.items())
    return "\n".join(
        f"{a}/{user} {one.shares} {float(one.norm_shares):.1%}" for (a, user), one in rows
    )


def shares_in_table(table: dict[Key, dict[str, str]]) -> str:
    """Return the shares and parts in the table of `phalanx shares`, in the form of
    `shares_in_percent`.
    """
    rows = sorted(table.items())
    return "\n".join(f"{a}/{user} {row['SHARES']} {row['PART']}" for (a, user), row in rows)


def ranks_in_table(table: dict[Key, dict[str, str]]) -> dict[Key, float]:
    """Return the column RANK of `phalanx shares`."""
    return {key: float(row["RANK"]) for key, row in table.items()}


def as_sprio(text: str) -> str:
    """Return the table of `phalanx priority` as lines of `sprio -l -h`, in its own order. The
    numbers are those of the plugin `multifactor`, rounded as Slurm does it.
    """
    found = []
    for cells in _rows(text):
        priority = max(int(float(cells["TOTAL"]) + 0.01), 1)
        age, fairshare, size = (
            f"{float(cells[name]):.0f}" for name in ("AGE", "FAIRSHARE", "SIZE")
        )
        found.append(
            f"{cells['JOB']} {cells['QUEUE']} {cells['USER']} {priority} 0 {age} 0 {fairshare}"
            f" {size}"
        )
    return "\n".join(found)


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the cells of each line of a table, by the columns' heads. Cells are two spaces apart or
    more.
    """
    head, *lines = (re.split(" {2,}", line.strip()) for line in text.splitlines())
    for line in lines:
        yield dict(zip(head, line, strict=True))
