"""Work that ends before its limit makes promised starts earlier, and none later."""

from __future__ import annotations

import random

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.scheduler.forecast.by_hand import run_on
from tests.unit.scheduler.forecast.drawn import KEEPING, Listened, drawn_snapshot, keeping

from phalanx.scheduler.cycle.specs import Snapshot


def elastic_no_more(snapshot: Snapshot, config: str = KEEPING) -> Snapshot:
    """Return the snapshot with gangs that start only as a whole. Each has a limit, and the running
    ones start now.
    """
    sizes: dict[str, int] = {}
    for task in snapshot.tasks:
        sizes[task.podgroup] = sizes.get(task.podgroup, 0) + 1
    groups = [
        msgspec.structs.replace(
            g,
            min_member=sizes[g.name],
            run_time_s=g.run_time_s or 100.0,
            started=None if g.started is None else snapshot.now,
        )
        for g in snapshot.podgroups
    ]
    return msgspec.structs.replace(snapshot, podgroups=tuple(groups), config=keeping(config))


@given(st.integers(0, 1 << 32))
@example(58266)  # a plan looked further than what cycles keep
def test_nobody_starts_later_than_promised_though_others_end_early(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = elastic_no_more(drawn_snapshot(draw))
    lasts = {g.uid: (g.run_time_s or 0.0) * draw.random() for g in snapshot.podgroups}
    listened = Listened()
    started = run_on(snapshot, listened, lasts)
    promised: dict[str, float] = {}
    for plan in listened.plans:
        assert not plan.unknown
        for one in plan.starts:
            assert one.at_s <= promised.get(one.podgroup, one.at_s)
            assert started[one.podgroup] <= one.at_s
            promised[one.podgroup] = one.at_s
