"""Runs a cluster whose work ends earlier than declared, cycle by cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.specs import PodGroupSpec, Snapshot
from phalanx.scheduler.forecast.planner import lent


def run_on(
    snapshot: Snapshot,
    planner: object,
    lasts_s: Mapping[str, float],
    on_end: Callable[[PodGroupSpec, float], None] = lambda group, run_time_s: None,
) -> dict[str, float]:
    """Run cycles until nothing runs any more; return when each podgroup started.

    `lasts_s`: how long each podgroup really runs. Cycles run at the beginning and whenever
    something ends.
    """
    started = {g.uid: g.started for g in snapshot.podgroups if g.started is not None}
    out: dict[str, float] = {}
    while True:
        plan = run_cycle(snapshot, shells={**lent(), "planner": planner}, explains=False)
        begun = {f"default/{t.podgroup}" for t in snapshot.tasks if t.uid in plan.binds}
        for uid in begun - started.keys():
            started[uid] = out[uid] = snapshot.now
        snapshot = after(snapshot, plan)
        running = {f"default/{t.podgroup}" for t in snapshot.tasks if t.node}
        if not running:
            return out
        now = min(max(started[uid] + lasts_s[uid], snapshot.now) for uid in running)
        over = {uid for uid in running if started[uid] + lasts_s[uid] <= now}
        for group in snapshot.podgroups:
            if group.uid in over:
                on_end(group, lasts_s[group.uid])
        snapshot = msgspec.structs.replace(
            snapshot,
            now=now,
            podgroups=tuple(
                msgspec.structs.replace(g, started=started.get(g.uid))
                for g in snapshot.podgroups
                if g.uid not in over
            ),
            tasks=tuple(t for t in snapshot.tasks if f"default/{t.podgroup}" not in over),
        )
