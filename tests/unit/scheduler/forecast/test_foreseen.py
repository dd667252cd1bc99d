"""A planner that remembers the places it has foreseen decides as one that searches all places
anew.
"""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduler.forecast.by_hand import run_on
from tests.unit.scheduler.forecast.drawn import KEEPING, drawn_snapshot, keeping, simulated
from tests.unit.scheduler.forecast.test_early_ends import elastic_no_more

from phalanx.scheduler.cycle.cycle import decide
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.forecast.cycle_promises import CyclePromises
from phalanx.scheduler.forecast.foreseen import Foreseen
from phalanx.scheduler.forecast.planner import Planner
from phalanx.scheduler.forecast.promised import PromiseRow

SEEDS = st.integers(0, 1 << 32)


def rows(planner: Planner) -> list[PromiseRow]:
    return [kept.row(uid, place) for place, (uid, kept) in enumerate(planner.promised.items())]


class Compared:
    """A planner that is compared with a second one. Before each cycle, the second planner is made
    from the promises of the first, as after a restart.
    """

    def __init__(self) -> None:
        self.planner = Planner()

    def promises(self, session: Session, promised: int, minimum: int) -> CyclePromises:
        anew = Planner()
        anew.restore(rows(self.planner))
        expected = anew.promises(session, promised, minimum)
        found = self.planner.promises(session, promised, minimum)
        assert found.held_back == expected.held_back
        assert said(found) == said(expected)
        assert rows(self.planner) == rows(anew)
        return found


def said(promises: CyclePromises) -> dict[str, dict[int, list[int]]]:
    return {
        uid: {index: counts.tolist() for index, counts in by_class.items()}
        for uid, by_class in promises.places.items()
    }


@pytest.fixture
def covered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list to which each answer of `Foreseen.covers` is added: whether a cycle needed no
    search.
    """
    answers: list[bool] = []
    ask = Foreseen.covers

    def listening(self: Foreseen, *args: object) -> bool:
        answers.append(ask(self, *args))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(Foreseen, "covers", listening)
    return answers


def test_while_limits_hold(covered: list[bool]) -> None:
    for seed in range(12):
        simulated(seed, Compared())
    assert covered.count(True) > len(covered) / 4


@given(SEEDS)
def test_while_work_ends_early(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = elastic_no_more(drawn_snapshot(draw))
    lasts = {g.uid: (g.run_time_s or 0.0) * draw.random() for g in snapshot.podgroups}
    run_on(snapshot, Compared(), lasts)


def small_and_big(length_s: float, nodes: tuple[str, ...], zone: str = "") -> Snapshot:
    """Return a snapshot in which half of node a is taken for 1,000 s. `big` is first and needs the
    whole node afterwards; `small` needs half of a node in a zone.
    """
    half = Shape(request=(("cpu", 4.0),))
    where = Shape(request=half.request, selector=(("zone", zone),)) if zone else half
    lengths = {"runs": 1_000.0, "big": 100_000.0, "small": length_s}
    return Snapshot(
        config=keeping(KEEPING.replace("allocate", "backfill")),
        nodes=tuple(
            NodeSpec(name=name, capacity=(("cpu", 8.0), ("pods", 9.0)), labels=(("zone", name),))
            for name in nodes
        ),
        queues=(QueueSpec(name="q"),),
        podgroups=tuple(
            PodGroupSpec(
                name=name,
                queue="q",
                min_member=1,
                priority=10 if name == "big" else 0,
                phase="Running" if name == "runs" else "Inqueue",
                run_time_s=lengths[name],
                started=0.0 if name == "runs" else None,
            )
            for name in lengths
        ),
        tasks=(
            TaskSpec(name="runs-0", podgroup="runs", shape=half, node="a", phase="Running"),
            TaskSpec(
                name="big-0",
                podgroup="big",
                shape=Shape(request=(("cpu", 8.0),), selector=(("zone", "a"),)),
            ),
            TaskSpec(name="small-0", podgroup="small", shape=where),
        ),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (small_and_big(1_010.0, ("a",)), small_and_big(990.0, ("a",))),
        (small_and_big(1_010.0, ("a", "b"), "a"), small_and_big(1_010.0, ("a", "b"))),
    ],
    ids=["for a shorter time", "elsewhere, too"],
)
def test_who_asks_for_else_looks_again(
    before: Snapshot, after: Snapshot, covered: list[bool]
) -> None:
    planner = Planner()

    def small_waits(snapshot: Snapshot) -> bool:
        session = decide(snapshot, explains=False)[0]
        return "default/small" in planner.promises(session, 32, 1).held_back

    assert small_waits(before)
    assert small_waits(before)
    assert not small_waits(after)
    assert covered == [True, True]


@given(SEEDS)
def test_whatever_changes(seed: int) -> None:
    draw = random.Random(seed)
    snapshot = drawn_snapshot(draw, now=draw.choice((0.0, 1_763_000_000.7)))
    compared = Compared()
    for _ in range(6):
        compared.promises(decide(snapshot, explains=False)[0], draw.choice((2, 32)), 1)
        for _ in range(draw.randint(0, 2)):
            snapshot = changed(snapshot, draw)
        snapshot = msgspec.structs.replace(
            snapshot, now=snapshot.now + draw.choice((0.0, 0.3, 1.0, 7.5, 100.0, -5.0))
        )


def changed(snapshot: Snapshot, draw: random.Random) -> Snapshot:
    """Return the snapshot with one change: a podgroup removed or changed, or a node added, removed
    or without room.
    """
    groups, nodes = list(snapshot.podgroups), list(snapshot.nodes)
    what = draw.choice(("gone", "shorter", "priority", "larger", "node", "label", "quota"))
    node = draw.choice(nodes)
    if what == "node":
        more = msgspec.structs.replace(node, name=f"{node.name}x")
        return msgspec.structs.replace(snapshot, nodes=(*nodes, more))
    if what == "label":
        nodes[nodes.index(node)] = msgspec.structs.replace(
            node, unschedulable=not node.unschedulable
        )
        return msgspec.structs.replace(snapshot, nodes=tuple(nodes))
    if what == "quota":
        queue = draw.choice(snapshot.queues)
        other = msgspec.structs.replace(queue, capability=(("cpu", float(draw.randint(1, 64))),))
        queues = tuple(other if q is queue else q for q in snapshot.queues)
        return msgspec.structs.replace(snapshot, queues=queues)
    if not groups:
        return snapshot
    group = groups.pop(draw.randrange(len(groups)))
    tasks = snapshot.tasks
    if what == "gone":
        tasks = tuple(t for t in tasks if t.podgroup != group.name)
    else:
        if what == "shorter":
            length_s = (group.run_time_s or 100.0) * draw.random()
            group = msgspec.structs.replace(group, run_time_s=length_s)
        elif what == "priority":
            group = msgspec.structs.replace(group, priority=draw.randint(0, 2))
        else:
            group = msgspec.structs.replace(group, min_member=draw.randint(1, 4))
        groups.append(group)
    return msgspec.structs.replace(snapshot, podgroups=tuple(groups), tasks=tasks)
