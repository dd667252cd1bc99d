"""Promises of the forecast are written to the store when they change, and the planner of the next
head keeps them.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from tests.unit.scheduler.forecast.drawn import drawn_snapshot

from phalanx.head.gangs.kept_promises import TABLE, KeptPromises
from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.forecast.promised import PromiseRow


class Rows:
    """A table of the store, and the changes that were written to it last."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.written: list[str] = []

    def keep(self, table: str, key: bytes, row: PromiseRow | None) -> None:
        assert table == TABLE
        self.written.append(key.decode())
        if row is None:
            del self.rows[key]
        else:
            self.rows[key] = msgspec.msgpack.encode(row)


def session_of(seed: int) -> Session:
    return decide(drawn_snapshot(random.Random(seed)), explains=False)[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_next_planner_promises_the_same(seed: int) -> None:
    table, planner = Rows(), Planner()
    kept = KeptPromises(planner, table.keep)
    planner.promises(session_of(seed), 32, 1)
    kept.look()
    assert set(table.written) == set(planner.promised)
    table.written.clear()
    kept.look()
    assert not table.written

    again = Planner()
    next_kept = KeptPromises(again, table.keep)
    next_kept.load(table.rows.values())
    next_kept.look()
    assert not table.written
    again.promises(session_of(seed), 32, 1)
    assert {uid: one.at_s for uid, one in again.promised.items()} == {
        uid: one.at_s for uid, one in planner.promised.items()
    }
    assert list(again.promised) == list(planner.promised)


def test_rows_stay_in_the_order_of_promises_when_somebody_comes_between() -> None:
    table, planner = Rows(), Planner()
    kept = KeptPromises(planner, table.keep)
    planner.promises(session_of(3), 32, 1)
    first = dict(planner.promised)
    assert len(first) > 2
    names = list(first)
    planner.restore([first[uid].row(uid, i) for i, uid in enumerate(names[:1] + names[2:])])
    kept.look()
    planner.restore([first[uid].row(uid, i) for i, uid in enumerate(names)])
    kept.look()
    rows = [msgspec.msgpack.decode(row, type=PromiseRow) for row in table.rows.values()]
    assert [row.podgroup for row in sorted(rows, key=lambda row: row.place)] == names


def test_rules_without_promises_leave_none_in_the_store() -> None:
    table, planner = Rows(), Planner()
    kept = KeptPromises(planner, table.keep)
    planner.promises(session_of(3), 32, 1)
    kept.look()
    assert table.rows
    kept.drop()
    assert not table.rows
    assert not planner.promised
