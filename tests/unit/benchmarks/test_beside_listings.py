"""The readers of `phalanx shares` and `phalanx priority` that the comparison with Slurm uses."""

from __future__ import annotations

import math

from phalanx.cli.common_options import rows_json
from phalanx.cli.listing import listing
from phalanx.cli.shares import COLUMNS, priority_text
from phalanx.model.rows.shares import ShareInfo
from phalanx.scheduler.cycle.waiting import WaitingGroup
from phalanx_benchmarks.beside.history_rows import (
    Listed,
    order_of_jobs,
    ordered,
    priority_faults,
)
from phalanx_benchmarks.beside.phalanx_listings import (
    as_sprio,
    ranks_in_table,
    shares_in_percent,
    shares_in_table,
    table_of_shares,
    users_in,
)

SHARES = [
    ShareInfo(
        queue="a", user="x", shares=3.0, is_set=True, part=0.75, use=7_200.5, use_part=0.6,
        level_fairshare=1.25, rank=1, rate=4.0,
    ),
    ShareInfo(
        queue="a", user="y", shares=1.0, is_set=False, part=0.25, use=0.0, use_part=0.0,
        level_fairshare=None, rank=2, rate=0.0,
    ),
]  # fmt: skip


def group(user: str, position: int, total: float, fairshare: float) -> WaitingGroup:
    factors = {"total": total, "age": 0.4, "fairshare": fairshare, "size": 2500.6, "class": 0.0}
    return WaitingGroup(
        podgroup=f"default/{user}-1", queue="a", user=user, position=position, priority=0,
        waited_s=70.0, factors=factors,
    )  # fmt: skip


def test_shares_are_read_from_json_and_from_the_table() -> None:
    users = users_in(rows_json(SHARES))
    assert users["a", "x"] == Listed("3", "0.750000", 7_200.5, 1.0, 0.6, 0.5, 1.25)
    assert users["a", "y"] == Listed("1", "0.250000", 0.0, 0.0, 0.0, 1.0, math.inf)
    table = table_of_shares(listing(COLUMNS, SHARES))
    assert shares_in_table(table) == shares_in_percent(users) == "a/x 3 75.0%\na/y 1 25.0%"
    assert ordered(ranks_in_table(table)) == "a: y x"
    assert (table["a", "x"]["USE"], table["a", "y"]["LEVEL"]) == ("2.00 unit-h", "-")


def test_priorities_are_read_as_those_of_sprio() -> None:
    text = as_sprio(priority_text([group("y", 1, 12_501.0, 10_000.0), group("x", 2, 9.99, 0.5)]))
    assert text == "y-1 a y 12501 0 0 0 10000 2501\nx-1 a x 10 0 0 0 0 2501"
    assert order_of_jobs(text, {"a": (1, {"x": 3, "y": 1})}) == "a: y x"
    users = users_in(rows_json(SHARES))
    assert priority_faults(text.replace("12501", "10000"), users) == (
        "x: PRIORITY 10, FAIRSHARE 0, not 5000.00"
    )
