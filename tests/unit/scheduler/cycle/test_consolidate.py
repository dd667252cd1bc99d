"""Work moves so that other work can start: as planned, immediately, rarely, and in columns that are
kept from cycle to cycle.
"""

from __future__ import annotations

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.moving import History
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.move_terms import move_terms, terms_fault
from phalanx.scheduler.forecast.inquiry import explain_snapshot
from phalanx.scheduler.forecast.what_if import compare

HISTORIES, STEPS = 40, 25


@pytest.mark.parametrize("first", range(0, HISTORIES, 10))
def test_plans_of_moves_come_true(first: int) -> None:
    moves = seated = 0
    for seed in range(first, first + 10):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        moves, seated = moves + history.moves, seated + history.seated
    assert moves
    assert seated


@pytest.mark.parametrize("seed", [10056, 10373])
def test_parts_of_cards_are_promised_where_cards_have_room(seed: int) -> None:
    """Each step checks that tasks keep their homes. With the first seed, an earlier version
    promised unequal parts of cards on one node, and the smaller part took the card that the larger
    one needed. With the second seed, the cycle did not know the cards of running tasks.
    """
    history = History(seed)
    for _ in range(STEPS):
        history.step()


SCATTERED = """
use ACTIONS | priority, gang | gpu-sharing, predicates, binpack
case x
now 10000
node a 8c 8G 1gpu
node b 8c 8G 1gpu
queue q
gang s q min=1 phase=Running {annotations: {phalanx/movable: 5m}, started: 0, run_time_s: 50000}
gang u q min=1 phase=Running {annotations: {phalanx/movable: 10m}, started: 0, run_time_s: 50000}
gang z q min=1 {run_time_s: 100}
task s s 1c 0.5gpu @a
task u u 1c 0.5gpu @b
task t z 1c 1gpu
"""


def scattered(actions: str) -> str:
    return SCATTERED.replace("ACTIONS", actions)


def test_moved_work_and_the_work_that_waited_get_the_places_of_the_plan() -> None:
    snapshot = snapshot_of(cases(scattered("allocate, consolidate"))[0])
    plan = run_cycle(snapshot)
    (moves,) = plan.moves
    assert [(one.podgroup, one.lost_s) for one in moves.jobs] == [("default/s", 300.0)]
    assert plan.homes == {"default/s": "b", "default/t": "a"}
    assert plan.held == ("default/s",)
    assert run_cycle(after(snapshot, plan)).binds == {"default/s": "b", "default/t": "a"}


def test_nobody_else_gets_a_place_that_work_moves_to() -> None:
    text = scattered("allocate, consolidate")
    snapshot = snapshot_of(cases(text)[0])
    plan = run_cycle(snapshot)
    text += "gang new q min=1 prio=9\ntask w new 1c 0.5gpu\n"
    text = text.replace("task s s 1c 0.5gpu @a", "task s s 1c 0.5gpu @a phase=Releasing home=b")
    text = text.replace("task t z 1c 1gpu", "task t z 1c 1gpu home=a")
    then = run_cycle(snapshot_of(cases(text)[0]))
    assert then.binds == {}
    assert then.homes == plan.homes
    assert then.pipelined == {"default/t": "a"}


def test_a_home_that_is_gone_is_forgotten() -> None:
    text = scattered("allocate").replace("@a", "phase=Pending home=c")
    plan = run_cycle(snapshot_of(cases(text)[0]))
    assert plan.homes == {}
    assert plan.binds["default/s"] == "b"


@pytest.mark.parametrize(
    ("actions", "line"),
    [
        (
            "allocate",
            "moving s (5m of work lost) would start it at once; the action consolidate, which "
            "makes such moves, is off",
        ),
        ("allocate, consolidate", "s is moved (5m of work lost) so that it starts at once"),
    ],
)
def test_explain_shows_moves(actions: str, line: str) -> None:
    snapshot = snapshot_of(cases(scattered(actions))[0])
    (one,) = [e for e in explain_snapshot(snapshot) if e.name == "default/z"]
    assert f"  {line}" in one.lines()


def test_what_if_shows_moves() -> None:
    snapshot = snapshot_of(cases(scattered("allocate"))[0])
    found = compare(snapshot, snapshot, moves=True)
    (moves,) = found.moves
    assert moves.claimant == "default/z"
    (start,) = found.starts
    assert (start.podgroup, start.after_s) == ("default/z", 0.0)
    assert start.before_s == pytest.approx(40_000, rel=0.1)
    without = compare(snapshot, snapshot)
    assert without.moves == ()


@pytest.mark.parametrize(
    ("said", "terms"),
    [
        ({}, None),
        ({"phalanx/movable": "no"}, None),
        ({"phalanx/movable": "true"}, (float("inf"), 0.0)),
        ({"phalanx/movable": "1h30m", "phalanx/restart-time": "20s"}, (5400.0, 20.0)),
        ({"phalanx/restart-time": "20s"}, None),
    ],
)
def test_terms(said: dict[str, str], terms: tuple[float, float] | None) -> None:
    assert move_terms(said.items()) == terms


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"phalanx/movable": "10m", "phalanx/restart-time": "1s", "x": "?"}, None),
        ({"phalanx/movable": "yes"}, "phalanx/movable"),
        ({"phalanx/movable": "-1s"}, "phalanx/movable"),
        ({"phalanx/restart-time": "fast"}, "phalanx/restart-time"),
    ],
)
def test_wrong_terms_are_named(said: dict[str, str], name: str | None) -> None:
    fault = terms_fault(said.items())
    assert (None if fault is None else fault[0]) == name
