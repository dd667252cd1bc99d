"""Invariants of every plan, with any running and waiting jobs."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduler.forecast.drawn import drawn_snapshot

from phalanx.model.rows.plan import Place, TimePlan
from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.planner import Planner
from phalanx_research.timed.workload import GPU

SEEDS = st.integers(0, 1 << 32)
FOR_EVER = 1e12


def planned(snapshot: Snapshot) -> TimePlan:
    return Planner().plan(decide(snapshot, explains=False)[0])


def spans(plan: TimePlan) -> list[tuple[float, float, Place]]:
    """Return (begin, end, place) of all work that runs or is planned. If the end is unknown, it is
    infinite.

    Work that has exceeded its run time is assumed to hold its place for a moment longer.
    """
    out = []
    for one in plan.running:
        ends_s = FOR_EVER if one.ends_s is None else max(one.ends_s, plan.now + 1e-6)
        out.append((plan.now, ends_s, one.place))
    for start in plan.starts:
        ends_s = FOR_EVER if start.ends_s is None else start.ends_s
        out += [(start.at_s, ends_s, place) for place in start.places]
    return out


@given(SEEDS)
def test_no_device_is_given_to_two_at_one_time(seed: int) -> None:
    snapshot = drawn_snapshot(random.Random(seed))
    plan = planned(snapshot)
    held: dict[str, list[float]] = {
        node.name: [plan.now] * round(dict(node.capacity)[GPU]) for node in snapshot.nodes
    }
    for begin, end, place in sorted(spans(plan), key=lambda one: one[:2]):
        for _ in range(round(place.devices.get(GPU, 0))):
            number = next(i for i, until in enumerate(held[place.node]) if until <= begin)
            held[place.node][number] = end


@given(SEEDS)
def test_cpus_are_never_promised_twice(seed: int) -> None:
    snapshot = drawn_snapshot(random.Random(seed))
    plan = planned(snapshot)
    cpus = {f"default/{t.podgroup}": dict(t.shape.request)["cpu"] for t in snapshot.tasks}
    all_spans = [
        (start.at_s, FOR_EVER if start.ends_s is None else start.ends_s, place, start.podgroup)
        for start in plan.starts
        for place in start.places
    ] + [
        (plan.now, FOR_EVER if one.ends_s is None else one.ends_s, one.place, one.podgroup)
        for one in plan.running
    ]
    for node in snapshot.nodes:
        for at in {begin for begin, *_ in all_spans}:
            used = sum(
                cpus[uid] * place.tasks
                for begin, end, place, uid in all_spans
                if begin <= at < end and place.node == node.name
            )
            assert used <= dict(node.capacity)["cpu"]


@given(SEEDS)
def test_who_comes_later_delays_nobody(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = drawn_snapshot(draw)
    starts = planned(snapshot).starts
    kept = draw.randint(0, len(starts))
    gone = {one.podgroup for one in starts[kept:]}
    fewer = msgspec.structs.replace(
        snapshot,
        podgroups=tuple(g for g in snapshot.podgroups if g.uid not in gone),
        tasks=tuple(t for t in snapshot.tasks if f"default/{t.podgroup}" not in gone),
    )
    again = planned(fewer).starts[:kept]
    assert [(a.podgroup, a.at_s, a.places) for a in again] == [
        (one.podgroup, one.at_s, one.places) for one in starts[:kept]
    ]


@given(SEEDS)
def test_fills_are_those_that_start_before_somebody_ahead(seed: int) -> None:
    starts = planned(drawn_snapshot(random.Random(seed))).starts
    for i, one in enumerate(starts):
        assert one.fills == any(ahead.at_s > one.at_s for ahead in starts[:i])


@given(SEEDS)
def test_the_plan_of_an_unchanged_cluster_is_the_same(seed: int) -> None:
    snapshot = drawn_snapshot(random.Random(seed))
    turned = msgspec.structs.replace(
        snapshot,
        nodes=snapshot.nodes[::-1],
        queues=snapshot.queues[::-1],
        podgroups=snapshot.podgroups[::-1],
        tasks=snapshot.tasks[::-1],
    )
    plan = planned(snapshot)
    assert planned(turned).starts == plan.starts
    planner = Planner()
    session = decide(snapshot, explains=False)[0]
    first = planner.promises(session, 32, 1).held_back
    assert planner.promises(session, 32, 1).held_back == first
    assert planner.plan(session).starts == plan.starts
