"""The page with the stream of tasks, their errors by kind, and the events of one task."""

from __future__ import annotations

import random

import pytest
from tests.present import present

from phalanx.dashboard.pages import work
from phalanx.dashboard.pages.styles import COLOURS
from phalanx.dashboard.pages.task_story import task_story
from phalanx.dashboard.pages.task_stream import LANES, OTHERS, RANGES_S, brief, stream
from phalanx.observe.state.query import StateAnswer, StatePart

from .world import NOW, task

NAMES = {f"{1:056x}": "gpu-1"}
W1, W2 = "aa" * 28, "bb" * 28


def ran(number, ago, length, worker=W1, **fields):
    """Return a task that began `ago` seconds ago and ran for `length` seconds."""
    times = {
        "start_time_ms": round(1000 * (NOW - ago)),
        "end_time_ms": round(1000 * (NOW - ago + length)),
    }
    return task(number, worker_id=worker, **times | fields)


def drawn(*rows, asked="1m", total=None):
    return stream(list(rows), len(rows) if total is None else total, NAMES, NOW, asked)


def test_a_lane_for_each_worker_and_a_bar_for_each_attempt():
    found = drawn(ran(1, 30, 15), ran(2, 12, 6, W2, name="train", state="FAILED", error_type="E"))
    first, second = found.lanes
    assert (first.name, first.node) == ("gpu-1 pid 41", f"{1:056x}")
    [piece] = first.pieces
    assert (piece.begin, piece.width, first.busy) == (50.0, 25.0, 25.0)
    assert piece.words == "load for 15s, finished"
    assert second.pieces[0].words == "train for 6.0s, failed: E"
    assert piece.look != second.pieces[0].look
    assert [(one.name, one.seconds) for one in found.functions] == [("load", 15), ("train", 6)]


def test_workers_of_one_node_whose_processes_are_unknown_have_different_names():
    node_part, rest = "ab" * 6, "0" * 32
    workers = [f"{node_part}{own}{rest}" for own in ("163a85b379c8", "20bcd3310000")]
    rows = [ran(n, 30, 5, one, worker_pid=None) for n, one in enumerate(workers)]
    assert [lane.name for lane in drawn(*rows).lanes] == [
        "gpu-1 worker 163a85", "gpu-1 worker 20bcd3",
    ]  # fmt: skip


def test_the_lane_of_an_actor_names_its_class():
    call = {"name": "best.step", "func_or_class_name": "Trainer.step", "actor_id": "cd" * 16}
    [lane] = drawn(ran(1, 30, 5, **call)).lanes
    assert lane.name == "gpu-1 pid 41 Trainer"


def test_what_began_before_the_axis_is_cut_at_its_edge():
    [lane] = drawn(ran(1, 90, 60)).lanes
    assert (lane.pieces[0].begin, lane.pieces[0].width, lane.busy) == (0.0, 50.0, 50.0)
    assert drawn(ran(1, 90, 20)).lanes == []


def test_a_task_that_runs_began_after_the_last_one_on_its_worker():
    runs = task(
        2, state="RUNNING", start_time_ms=None, end_time_ms=None, worker_id=W1,
        creation_time_ms=round(1000 * (NOW - 50)),
    )  # fmt: skip
    [lane] = drawn(ran(1, 45, 15), runs).lanes
    assert [(one.begin, one.width) for one in lane.pieces] == [(25.0, 25.0), (50.0, 50.0)]
    assert lane.pieces[1].words == "load for 30s, runs"
    waits = task(3, state="PENDING_NODE_ASSIGNMENT", worker_id=None)
    assert len(drawn(waits).lanes) == 0


def test_short_neighbours_are_one_bar_and_a_failure_stays_apart():
    rows = [ran(n, 30 - n * 0.01, 0.009) for n in range(200)]
    rows[100]["state"] = "FAILED"
    [lane] = drawn(*rows).lanes
    assert len(lane.pieces) < 30
    assert sum(one.state == "FAILED" for one in lane.pieces) == 1
    counted = sum(int(one.words.split(" × ")[0]) for one in lane.pieces if " × " in one.words)
    assert counted + sum(" × " not in one.words for one in lane.pieces) == 200
    assert lane.busy == pytest.approx(100 * 200 * 0.009 / 60, abs=0.1)


def test_functions_beyond_the_colours_share_the_last():
    rows = [ran(n, 50, 20 - n, f"{n:056x}", name=f"f{n:02}") for n in range(COLOURS + 3)]
    functions = drawn(*rows).functions
    assert [one.name for one in functions] == [
        *(f"f{n:02}" for n in range(COLOURS - 1)), OTHERS
    ]  # fmt: skip
    assert len({one.look for one in functions}) == COLOURS
    assert functions[-1].attempts == 4


@pytest.mark.parametrize(
    ("ages", "shown"), [([2, 3, 4], "10s"), ([2, 30, 40], "1m"), ([9e6], "1d"), ([], "1m")]
)
def test_the_axis_holds_half_of_the_attempts(ages, shown):
    rows = [ran(n, age + 1, 1) for n, age in enumerate(ages)]
    assert drawn(*rows, asked="").range == shown


def test_what_is_left_out_is_said():
    rows = [ran(n, 1 + n / 10, 0.05, f"{n:056x}") for n in range(LANES + 5)]
    found = drawn(*rows, total=9_000)
    assert (len(found.lanes), found.lanes_in_all, found.is_cut) == (LANES, LANES + 5, True)
    assert not drawn(*rows).is_cut
    assert not drawn(*rows, ran(999, 100, 1), total=9_000).is_cut, "older ones are off the axis"


@pytest.mark.parametrize("seed", range(20))
def test_bars_stay_on_the_axis_and_no_attempt_is_lost(seed):
    rng = random.Random(seed)
    rows = [
        ran(n, rng.uniform(0.1, 4_000), rng.choice((0.001, 0.1, 5)), rng.choice((W1, W2)))
        for n in range(300)
    ]
    for row in rows:
        row["end_time_ms"] = min(row["end_time_ms"], round(1000 * NOW))
    for asked, length_s in RANGES_S.items():
        found = drawn(*rows, asked=asked)
        assert found.drawn == sum(row["end_time_ms"] > 1000 * (NOW - length_s) for row in rows)
        for lane in found.lanes:
            assert all(one.begin >= 0 and one.begin + one.width <= 100.3 for one in lane.pieces)
            assert 0 <= lane.busy <= 100


def answer(rows=(), counts=()):
    return StateAnswer(StatePart(list(rows), len(rows), len(rows), list(counts)), [])


def test_errors_are_grouped_with_the_last_of_each():
    counts = [
        (["load", "load", "TASK_EXECUTION_EXCEPTION", "FAILED"], 7, 0.0),
        (["load", "load", None, "FINISHED"], 90, 0.0),
        (["train", "train", "OUT_OF_MEMORY", "FAILED"], 9, 0.0),
    ]
    last = [
        ran(
            5,
            3,
            1,
            state="FAILED",
            error_type="TASK_EXECUTION_EXCEPTION",
            error_message="ValueError: NaN",
        ),
        ran(4, 9, 1, state="FAILED", error_type="TASK_EXECUTION_EXCEPTION"),
    ]
    page = work.work(answer(counts=counts), answer(), answer(last), answer(), NAMES, NOW)
    assert [(one.function, one.error, one.attempts) for one in page.errors] == [
        ("train", "OUT_OF_MEMORY", 9), ("load", "TASK_EXECUTION_EXCEPTION", 7),
    ]  # fmt: skip
    assert [(one.last, one.task) for one in page.errors] == [(None, ""), (NOW - 2, f"{5:048x}")]
    assert [one.message for one in page.errors] == ["", "ValueError: NaN"]
    assert {one.name: one.states for one in page.tasks} == {
        "load": {"FAILED": 7, "FINISHED": 90}, "train": {"FAILED": 9},
    }  # fmt: skip


def test_a_bar_shows_how_far_the_tasks_of_a_function_are():
    states = {"FINISHED": 5, "FAILED": 1, "RUNNING": 2, "PENDING_NODE_ASSIGNMENT": 1, "OTHER": 1}
    assert work.Count(name="f", states=states).progress == [
        ("done", 0.0, 50.0), ("failed", 50.0, 10.0), ("runs", 60.0, 20.0), ("waits", 80.0, 20.0),
    ]  # fmt: skip
    assert work.Count(name="f", states={"RUNNING": 3}).progress == [("runs", 0.0, 100.0)]


def test_the_story_of_a_task_has_its_attempts_in_order():
    rows = [
        ran(2, 10, 4, attempt_number=1, creation_time_ms=round(1000 * (NOW - 30))),
        ran(2, 25, 5, state="FAILED", error_type="WORKER_DIED", parent_task_id="ab" * 24,
            creation_time_ms=round(1000 * (NOW - 30))),
    ]  # fmt: skip
    story = present(task_story(rows, [(["part", "FINISHED"], 3, 0.0)]))
    assert [(one.number, one.waited_s, one.ran_s) for one in story.attempts] == [
        (0, 5.0, 5.0), (1, 20.0, 4.0),
    ]  # fmt: skip
    assert (story.state, story.attempts[0].error) == ("FINISHED", "WORKER_DIED")
    assert story.children == {"part": {"FINISHED": 3}}
    assert task_story([], []) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "<1 ms"), (0.0031, "3.1 ms"), (0.316, "316 ms"), (2.04, "2.0s"), (75.0, "1m15s")],
)
def test_lengths_of_tasks_have_parts_of_a_second(seconds: float, text: str) -> None:
    assert brief(seconds) == text
