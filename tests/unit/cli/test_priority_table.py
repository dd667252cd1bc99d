"""The table of `phalanx priority`."""

from __future__ import annotations

import pytest

from phalanx.cli.shares import priority_text
from phalanx.scheduler.cycle.waiting import WaitingGroup


def group(**factors: float) -> WaitingGroup:
    return WaitingGroup(
        podgroup="default/train", queue="lab", user="alice", position=1, priority=7,
        waited_s=70.0, factors=factors,
    )  # fmt: skip


def test_the_factor_age_and_the_time_waited_have_a_column_each() -> None:
    assert priority_text([group(total=167.0, age=166.7)]).splitlines() == [
        "QUEUE  NEXT  JOB    USER   PRIORITY  TOTAL    AGE  WAITED",
        "lab       1  train  alice         7    167  166.7   1m10s",
    ]


@pytest.mark.parametrize(
    ("total", "shown"),
    [
        (0.25, "0.25"),
        (6666.6667, "6666.67"),
        (99_999.97, "100000"),
        (123_456.7, "123457"),
        (1_234_567.0, "1234567"),
        (98_765_432.0, "98765432"),
        (-1_234_567.0, "-1234567"),
    ],
)
def test_large_weights_hide_no_point(total, shown) -> None:
    row = priority_text([group(total=total)]).splitlines()[1]
    assert row.split()[5] == shown
