"""Reservations and licenses are respected by cycles and by plans, on random clusters and over
simulated days.
"""

from __future__ import annotations

import math
import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.unit.scheduler.forecast.drawn import drawn_snapshot, jobs, keeping, machines, queues

from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.config import Configuration
from phalanx.scheduler.cycle.cycle import decide, run_cycle
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    Amounts,
    LicenseSpec,
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    ReservationSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.cycle.writing import as_data
from phalanx.scheduler.forecast.planner import Planner
from phalanx_research.timed import Job, KeptApart, Part, Result, Rules, machine, simulate
from phalanx_research.timed.workload import GPU

SEEDS = st.integers(0, 1 << 32)
PLAIN = """\
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: capacity
  - name: licenses
  - name: calendar
  - name: predicates
  - name: binpack
"""
PROMISING = PLAIN.replace("  - name: gang\n", "  - name: gang\n  - name: reservation\n")


def config(text: str = PLAIN) -> Configuration:
    return keeping(text)


def drawn_reservations(draw: random.Random, nodes: list[NodeSpec]) -> list[ReservationSpec]:
    """Draw up to four reservations. No two reserve the same thing at the same time: each has its
    own nodes, or a part of one node.
    """
    names = [node.name for node in nodes]
    draw.shuffle(names)
    out = []
    for i in range(draw.randint(1, 4)):
        places: list[tuple[str, Amounts]] = []
        for name in [names.pop() for _ in range(min(len(names), draw.randint(1, 2)))]:
            capacity = dict(next(n for n in nodes if n.name == name).capacity)
            part = tuple((r, math.floor(x / 2) + 0.0) for r, x in capacity.items() if r != "pods")
            places.append((name, draw.choice(((), part))))
        begin = float(draw.randint(0, 400))
        windows: list[tuple[float, float | None]] = []
        for _ in range(draw.randint(1, 3)):
            end = begin + draw.randint(1, 400)
            windows.append((begin, end))
            begin = end + draw.randint(0, 300)
        if draw.random() < 0.2:
            windows[-1] = (windows[-1][0], None)
        out.append(
            ReservationSpec(
                name=f"r{i}",
                places=tuple(places),
                windows=tuple(windows),
                maintenance=draw.random() < 0.3,
                users=draw.choice(((), ("ann",))),
            )
        )
    return out


def day(seed: int, text: str) -> tuple[Result, list[Job], list[NodeSpec], KeptApart]:
    """Simulate a day with exact limits, on which strangers and guests (users of the reservations)
    submit work; return its result and its inputs.
    """
    draw = random.Random(seed)
    nodes, qs = machines(draw), queues(draw)
    found = drawn_reservations(draw, nodes)
    work = []
    for job in jobs(draw, nodes, qs):
        named = draw.choice([one.name for one in found]) if draw.random() < 0.4 else ""
        work.append(
            msgspec.structs.replace(
                job,
                reservation=named,
                user=draw.choice(("ann", "bob")),
                licenses=draw.choice(((), (), (("lic", draw.randint(1, 3)),))),
            )
        )
    kept = KeptApart(reservations=tuple(found), licenses=(LicenseSpec(name="lic", total=3),))
    result = simulate(
        work, nodes, config=config(text), queues=qs, rules=Rules(period_s=0.0), kept=kept
    )
    return result, work, nodes, kept


def check_day(result: Result, work: list[Job], nodes: list[NodeSpec], kept: KeptApart) -> None:
    by_name = {job.name: job for job in work}
    spans = [
        (one.start_s, one.start_s + by_name[one.name].work_s, by_name[one.name])
        for one in result.jobs
        if one.start_s is not None
    ]
    for reservation in kept.reservations:
        for begin, end, job in spans:
            if job.reservation != reservation.name:
                continue
            assert not reservation.maintenance
            assert not reservation.users or job.user in reservation.users
            assert any(a <= begin and (b is None or begin < b) for a, b in reservation.windows), (
                "a guest begins outside of its reservation"
            )
            assert end > begin or job.work_s == 0
    for at in sorted({begin for begin, _, _ in spans}):
        held = sum(
            count for begin, end, job in spans if begin <= at < end for _, count in job.licenses
        )
        assert held <= 3


@given(SEEDS)
def test_licenses_and_guests_over_a_day(seed: int) -> None:
    check_day(*day(seed, PLAIN))


@settings(max_examples=examples(36))
@given(SEEDS)
def test_the_same_where_promises_are_kept(seed: int) -> None:
    check_day(*day(seed, PROMISING))


# ---- devices -----------------------------------------------------------------------------------


def with_reservations(seed: int, text: str = PLAIN) -> Snapshot:
    """Draw a cluster at second 0 in which guests and strangers wait, and strangers run."""
    draw = random.Random(seed)
    snapshot = drawn_snapshot(draw)
    found = drawn_reservations(draw, list(snapshot.nodes))
    groups = tuple(
        msgspec.structs.replace(
            group,
            user=draw.choice(("ann", "bob")),
            reservation=(
                draw.choice(found).name if group.started is None and draw.random() < 0.4 else ""
            ),
        )
        for group in snapshot.podgroups
    )
    return msgspec.structs.replace(
        snapshot, config=config(text), podgroups=groups, reservations=tuple(found)
    )


def intruders(snapshot: Snapshot, binds: dict[str, str]) -> list[str]:
    """Return the jobs of `binds` that start now and will still run when and where a reservation
    leaves nothing free.
    """
    groups = {group.uid: group for group in snapshot.podgroups}
    nodes = {node.name: dict(node.capacity) for node in snapshot.nodes}
    kept = {one.name: one for one in snapshot.reservations}
    stays: list[tuple[str, PodGroupSpec, TaskSpec, float]] = []
    for task in snapshot.tasks:
        group = groups[f"default/{task.podgroup}"]
        node = task.node or binds.get(task.uid, "")
        if node:
            begun = snapshot.now if group.started is None else group.started
            ends = math.inf if group.run_time_s is None else max(begun + group.run_time_s, 0.0)
            stays.append((node, group, task, ends))
    out = []
    for task_uid, node in binds.items():
        task = next(t for t in snapshot.tasks if t.uid == task_uid)
        group = groups[f"default/{task.podgroup}"]
        begun = snapshot.now if group.started is None else group.started  # its gang's limit is one
        ends = math.inf if group.run_time_s is None else begun + group.run_time_s
        own = kept.get(group.reservation)
        for time in sorted({w[0] for r in kept.values() for w in r.windows} | {snapshot.now}):
            if not snapshot.now <= time < ends:
                continue
            there = [
                r for r in kept.values()
                if any(a <= time and (b is None or time < b) for a, b in r.windows)
            ]  # fmt: skip
            claims = [dict(r.places)[node] for r in there if node in dict(r.places)]
            others = [r for r in there if node in dict(r.places) and r is not own]
            if own is not None and own not in there:
                continue  # it is over by then, and so is its guest
            if own is not None:
                if others or node not in dict(own.places):
                    out.append(task_uid)
                continue
            if any(not claim for claim in claims):
                out.append(task_uid)
                continue
            for resource in ("cpu", GPU):
                used = sum(
                    dict(t.shape.request).get(resource, 0.0)
                    for n, g, t, e in stays
                    if n == node and e > time and not g.reservation
                )
                claimed = sum(dict(claim)[resource] for claim in claims)
                asked = dict(task.shape.request).get(resource, 0.0)
                if asked and used + claimed > nodes[node][resource]:
                    out.append(task_uid)
    return out


@given(SEEDS)
def test_nobody_without_a_right_is_where_and_when_it_is_reserved(seed: int) -> None:
    snapshot = with_reservations(seed)
    binds = dict(run_cycle(snapshot, explains=False).binds)
    assert not intruders(snapshot, binds)


@given(SEEDS)
def test_nor_where_promises_are_kept(seed: int) -> None:
    snapshot = with_reservations(seed, PROMISING)
    binds = dict(run_cycle(snapshot, shells={"planner": Planner()}, explains=False).binds)
    assert not intruders(snapshot, binds)


@given(SEEDS)
def test_a_plan_puts_nobody_where_and_when_it_is_reserved(seed: int) -> None:
    snapshot = with_reservations(seed, PLAIN.replace("allocate", "backfill"))
    plan = Planner().plan(decide(snapshot, explains=False)[0])
    groups = {group.uid: group for group in snapshot.podgroups}
    for start in plan.starts:
        own = groups[start.podgroup].reservation
        ends = math.inf if start.ends_s is None else start.ends_s
        for one in snapshot.reservations:
            whole = {node for node, amounts in one.places if not amounts}
            if one.name == own:
                assert not one.maintenance
                assert {place.node for place in start.places} <= {n for n, _ in one.places}
                continue
            for begin, end in one.windows:
                meets = start.at_s < (math.inf if end is None else end) and begin < ends
                assert not (meets and whole & {place.node for place in start.places})


@given(SEEDS)
def test_the_plan_of_an_unchanged_cluster_is_the_same(seed: int) -> None:
    snapshot = with_reservations(seed, PROMISING.replace("allocate", "backfill"))
    turned = msgspec.structs.replace(
        snapshot,
        nodes=snapshot.nodes[::-1],
        podgroups=snapshot.podgroups[::-1],
        tasks=snapshot.tasks[::-1],
        reservations=snapshot.reservations[::-1],
    )
    session = decide(snapshot, explains=False)[0]
    planner = Planner()
    plan = planner.plan(session)
    assert Planner().plan(decide(turned, explains=False)[0]).starts == plan.starts
    first = planner.promises(session, 32, 1).held_back
    assert planner.promises(session, 32, 1).held_back == first


@given(SEEDS)
def test_a_snapshot_with_reservations_is_read_as_it_was_written(seed: int) -> None:
    snapshot = msgspec.structs.replace(
        with_reservations(seed), licenses=(LicenseSpec(name="lic", total=2),)
    )
    text = msgspec.json.encode(as_data(snapshot)).decode()
    again = read_snapshots(text, known_plugins())[0]
    assert again.reservations == snapshot.reservations
    assert again.licenses == snapshot.licenses
    assert {g.uid: g.reservation for g in again.podgroups} == {
        g.uid: g.reservation for g in snapshot.podgroups
    }


# ---- by hand -----------------------------------------------------------------------------------


def cluster(*groups: tuple[PodGroupSpec, str], **given: object) -> Snapshot:
    """Return one machine of 8 GPUs. Each podgroup has one task that asks for 4, and may already
    run.
    """
    shape = Shape(request=(("cpu", 1.0), (GPU, 4.0)))
    return msgspec.structs.replace(
        Snapshot(
            config=config(),
            nodes=(machine("n", cpu=64, gpus=8),),
            queues=(QueueSpec(name="q"),),
            podgroups=tuple(group for group, _ in groups),
            tasks=tuple(
                TaskSpec(
                    name=f"{group.name}-0",
                    podgroup=group.name,
                    shape=shape,
                    node=node,
                    phase="Running" if node else "Pending",
                )
                for group, node in groups
            ),
        ),
        **given,
    )


def group(name: str, run_time_s: float | None = None, **given: object) -> PodGroupSpec:
    made = PodGroupSpec(name=name, queue="q", min_member=1, run_time_s=run_time_s)
    return msgspec.structs.replace(made, **given)


WHOLE = ReservationSpec(name="r", places=(("n", ()),), windows=((100.0, 200.0),))
HALF = ReservationSpec(
    name="r",
    places=(("n", (("cpu", 32.0), (GPU, 4.0), ("memory", 5e14))),),
    windows=((100.0, 200.0),),
)


def started(snapshot: Snapshot) -> set[str]:
    return {task.partition("/")[2].partition("-")[0] for task in run_cycle(snapshot).binds}


def test_who_ends_as_it_begins_starts_and_who_ends_later_does_not() -> None:
    both = ((group("ends", 100.0), ""), (group("late", 100.5), ""))
    assert started(cluster(*both, reservations=(WHOLE,))) == {"ends"}
    assert started(cluster((group("never"), ""), reservations=(WHOLE,))) == set()


def test_of_a_part_the_rest_is_free() -> None:
    two = ((group("a"), ""), (group("b"), ""))
    assert len(started(cluster(*two, reservations=(HALF,)))) == 1
    running = (group("runs", 50.0, started=0.0), "n")
    assert started(cluster(running, (group("a"), ""), reservations=(HALF,))) == {"a"}
    running = (group("runs", 150.0, started=0.0), "n")
    assert started(cluster(running, (group("a"), ""), reservations=(HALF,))) == set()


def test_guests_run_inside_and_strangers_beside_them() -> None:
    work = (
        (group("guest", reservation="r"), ""),
        (group("second", reservation="r"), ""),
        (group("beside"), ""),
    )
    assert started(cluster(*work, reservations=(HALF,))) == {"beside"}
    at_begin = cluster(*work, reservations=(HALF,), now=100.0)
    assert len(started(at_begin)) == 2
    assert "beside" in started(at_begin)
    assert started(cluster(*work, reservations=(HALF,), now=200.0)) == {"beside"}


def test_a_plan_says_when_a_guest_and_a_stranger_begin() -> None:
    work = ((group("guest", reservation="r"), ""), (group("late", 150.0), ""))
    idle = msgspec.structs.replace(config(), actions=())
    snapshot = cluster(*work, reservations=(WHOLE,), config=idle)
    plan = Planner().plan(decide(snapshot, explains=False)[0])
    starts = {start.podgroup: (start.at_s, start.ends_s) for start in plan.starts}
    assert starts == {"default/guest": (100.0, 200.0), "default/late": (200.0, 350.0)}


def test_gangs_of_one_cycle_never_hold_more_licenses_than_there_are() -> None:
    groups = [(group(f"g{i}", licenses=(("lic", 1),)), "") for i in range(2)]
    snapshot = cluster(*groups, licenses=(LicenseSpec(name="lic", total=1),))
    assert len(started(snapshot)) == 1
    assert started(cluster(*groups)) == set()
    plan = Planner().plan(
        decide(
            msgspec.structs.replace(
                cluster(
                    (group("holds", 60.0, started=0.0, licenses=(("lic", 1),)), "n"),
                    (group("waits", 10.0, licenses=(("lic", 1),)), ""),
                    licenses=(LicenseSpec(name="lic", total=1),),
                ),
                config=msgspec.structs.replace(config(), actions=()),
            ),
            explains=False,
        )[0]
    )
    assert [(start.podgroup, start.at_s) for start in plan.starts] == [("default/waits", 60.0)]


def test_tasks_that_ask_for_nothing_of_a_node_count_too() -> None:
    groups = [group(f"g{i}", licenses=(("lic", 1),)) for i in range(2)]
    snapshot = msgspec.structs.replace(
        cluster(*((one, "") for one in groups), licenses=(LicenseSpec(name="lic", total=1),)),
        config=config(PLAIN.replace('"allocate"', '"allocate, backfill"')),
    )
    idle = tuple(msgspec.structs.replace(task, shape=Shape()) for task in snapshot.tasks)
    assert len(started(msgspec.structs.replace(snapshot, tasks=idle))) == 1
    kept = msgspec.structs.replace(snapshot, tasks=idle, licenses=(), reservations=(WHOLE,))
    free = tuple(msgspec.structs.replace(one, licenses=()) for one in kept.podgroups)
    assert started(msgspec.structs.replace(kept, podgroups=free)) == set()


def test_parts_of_jobs_are_simulated_with_reservations() -> None:
    shape = Shape(request=(("cpu", 1.0), (GPU, 8.0)))
    job = Job(name="j", submit_s=0, work_s=150, parts=(Part(shape=shape),))
    result = simulate(
        [job],
        [machine("n", cpu=64, gpus=8)],
        config=config(),
        kept=KeptApart(reservations=(WHOLE,)),
    )
    assert [one.start_s for one in result.jobs] == [200.0]


def crowded(snapshot: Snapshot, begun: set[str]) -> list[str]:
    """Return the active reservations of which strangers hold some resources. Only the podgroups in
    `begun` count as strangers.
    """
    groups = {group.uid: group for group in snapshot.podgroups}
    nodes = {node.name: dict(node.capacity) for node in snapshot.nodes}
    out = []
    for one in snapshot.reservations:
        if not any(a <= snapshot.now and (b is None or snapshot.now < b) for a, b in one.windows):
            continue
        for node, claim in one.places:
            held = [
                dict(task.shape.request)
                for task in snapshot.tasks
                if task.node == node
                and f"default/{task.podgroup}" in begun
                and groups[f"default/{task.podgroup}"].reservation != one.name
            ]
            if held and not claim:
                out.append(one.name)
            for resource, amount in claim if held else ():
                if sum(x.get(resource, 0.0) for x in held) + amount > nodes[node][resource]:
                    out.append(one.name)
    return out


@given(SEEDS)
def test_a_beginning_finds_nobody_there_whose_limit_is_exact(seed: int) -> None:
    snapshot = with_reservations(seed)
    started = {g.uid: g.started for g in snapshot.podgroups if g.started is not None}
    before = set(started)
    changes = {t for r in snapshot.reservations for w in r.windows for t in w if t is not None}
    while True:
        plan = run_cycle(snapshot, explains=False)
        assert not intruders(snapshot, dict(plan.binds))
        for task in snapshot.tasks:
            if task.uid in plan.binds:
                started.setdefault(f"default/{task.podgroup}", snapshot.now)
        snapshot = after(snapshot, plan)
        groups = tuple(
            msgspec.structs.replace(g, started=started.get(g.uid)) for g in snapshot.podgroups
        )
        snapshot = msgspec.structs.replace(snapshot, podgroups=groups)
        assert not crowded(snapshot, started.keys() - before)
        placed = {f"default/{task.podgroup}" for task in snapshot.tasks if task.node}
        ends = {g.uid: ended(g, snapshot) for g in groups if g.uid in placed}
        times = [t for t in {*ends.values(), *changes} if snapshot.now < t < math.inf]
        if not times:
            return
        now = min(times)
        over = {uid for uid, end in ends.items() if end <= now}
        snapshot = msgspec.structs.replace(
            snapshot,
            now=now,
            podgroups=tuple(g for g in groups if g.uid not in over),
            tasks=tuple(t for t in snapshot.tasks if f"default/{t.podgroup}" not in over),
        )
        assert not crowded(snapshot, started.keys() - before - over)


def ended(group: PodGroupSpec, snapshot: Snapshot) -> float:
    """Return when running work ends: when its limit is over, or when its reservation ends."""
    assert group.started is not None
    ends = [math.inf if group.run_time_s is None else group.started + group.run_time_s]
    for one in snapshot.reservations:
        if one.name == group.reservation:
            ends += [b for a, b in one.windows if b is not None and a <= group.started < b]
    return min(ends)


def test_on_a_node_of_which_nothing_is_reserved_room_may_be_made() -> None:
    """A reservation of another node does not forbid preemption on this node."""
    whole_gangs = PLAIN.replace("- name: gang\n", "- name: gang\n    enablePreemptable: false\n")
    preempts = config(whole_gangs.replace('"allocate"', '"allocate, preempt"'))
    shape = Shape(request=(("cpu", 1.0), (GPU, 8.0)))
    low = PodGroupSpec(name="low", queue="q", min_member=1)
    urgent = PodGroupSpec(name="urgent", queue="q", min_member=1, priority=10)
    snapshot = cluster(reservations=(WHOLE,), config=preempts)
    snapshot = msgspec.structs.replace(
        snapshot,
        nodes=(machine("n", cpu=64, gpus=8), machine("m", cpu=64, gpus=8)),
        podgroups=(low, urgent),
        tasks=(
            TaskSpec(name="low-0", podgroup="low", shape=shape, node="m", phase="Running"),
            TaskSpec(name="urgent-0", podgroup="urgent", shape=shape),
        ),
    )
    plan = run_cycle(snapshot)
    assert plan.evicted == ("default/low-0",)
