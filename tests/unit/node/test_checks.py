"""Checks of a node's health: when they run, what follows from their results, and that none delays
the node.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.node.checks import MAX_SAID, CheckRules, Checks, Exit
from phalanx.observe.checks import (
    PENDING,
    CheckState,
    bad_checks_text,
    suspect_checks_text,
)
from phalanx.observe.device_health import BAD, OK, SUSPECT

RULES = CheckRules(every_s=100.0, limit_s=10.0)
WELL = Exit(0, "fine")


class World:
    """Stands for the programs of the checks. They end when the test says so."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.started: list[tuple[str, str]] = []
        self.exit: Exit | None = None
        self.killed = 0
        self.is_idle = True
        self.now = 0.0
        self.notes: list[str] = []
        self.checks = Checks(
            self, RULES, lambda: self.is_idle, lambda: 2.0, lambda text, **about: self.note(text)
        )

    def note(self, text: str) -> None:
        self.notes.append(text)

    def start(self, name: str, when: str) -> None:
        self.started.append((name, when))

    def ended(self) -> Exit | None:
        found, self.exit = self.exit, None
        return found

    def kill(self) -> None:
        self.killed += 1

    def tick(self, after_s: float = 0.0, exits: Exit | None = None) -> list[tuple[str, str]]:
        """Let time pass; return the checks that were started."""
        self.now += after_s
        self.exit = exits
        self.started.clear()
        self.checks.tick(self.now)
        return list(self.started)

    def pass_all(self, found: Exit = WELL) -> None:
        """Let every check that runs or waits end with this result."""
        for _ in range(4 * len(self.names) + 4):
            self.tick(exits=found)


def test_a_node_without_checks_has_nothing_to_wait_for() -> None:
    world = World()
    assert world.tick(1000.0) == []
    assert world.checks.unwell == []
    assert not world.checks.before((0, 1), lambda reason: None)


def test_all_run_one_after_another_as_the_node_joins() -> None:
    world = World("gpus", "disk")
    assert [one.state for one in world.checks.unwell] == [PENDING, PENDING]
    assert world.tick() == [("gpus", "join")]
    assert world.tick(1.0) == []
    assert world.tick(exits=WELL) == []
    assert world.checks.unwell == [CheckState("disk", PENDING)]
    assert world.tick() == [("disk", "join")]
    world.tick(exits=WELL)
    assert world.checks.unwell == []
    assert world.notes == []


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (WELL, OK, ""),
        (Exit(1, "fan 3 is slow"), SUSPECT, "fan 3 is slow"),
        (Exit(2, "gpu1 has no link"), BAD, "gpu1 has no link"),
        (Exit(3, "oops"), SUSPECT, "exit code 3: oops"),
        (Exit(-11, ""), SUSPECT, "exit code -11: "),
        (Exit(127, "not found"), SUSPECT, "exit code 127: not found"),
        (Exit(None, "No such file"), SUSPECT, "it could not be started: No such file"),
        (Exit(2, "x" * 1000), BAD, "x" * MAX_SAID),
    ],
)
def test_what_an_exit_means(found: Exit, state: str, said: str) -> None:
    world = World("c")
    world.tick()
    world.tick(exits=found)
    shown = world.checks.unwell
    assert shown == ([] if state == OK else [CheckState("c", state, said)])


def test_one_that_hangs_is_killed_once_and_is_suspect() -> None:
    world = World("c")
    world.tick()
    world.tick(9.0)
    assert world.killed == 0
    world.tick(1.0)
    world.tick(5.0)
    assert world.killed == 1
    world.tick(exits=Exit(-9, "half a line"))
    assert world.checks.unwell == [CheckState("c", SUSPECT, "it ran longer than 10 s")]


def test_they_run_again_while_the_node_is_idle_or_one_is_bad() -> None:
    world = World("c")
    world.pass_all()
    assert world.tick(99.0) == []
    world.is_idle = False
    assert world.tick(1.0) == world.tick() == []
    world.is_idle = True
    world.tick()
    assert world.tick() == [("c", "idle")]
    world.tick(exits=Exit(2, "broken"))
    world.tick()
    world.is_idle = False
    world.tick(100.0)
    assert world.tick() == [("c", "idle")]
    world.tick(exits=WELL)
    assert world.checks.unwell == []
    assert world.notes == ["check c is bad: broken", "check c is ok"]


def test_before_a_member_with_all_gpus_begins_and_after_it_has_ended() -> None:
    world = World("c")
    world.pass_all()
    told: list[str] = []
    assert not world.checks.before((0,), told.append)
    assert world.checks.before((0, 1), told.append)
    assert world.checks.before((0, 1), told.append)
    assert world.tick() == [("c", "before")]
    assert told == []
    world.pass_all()
    assert told == ["", ""]
    world.checks.after((0,))
    assert world.tick() == []
    world.checks.after((0, 1))
    assert world.tick() == [("c", "after")]


def test_a_member_does_not_begin_on_a_node_that_is_bad() -> None:
    world = World("c")
    world.pass_all()
    told: list[str] = []
    world.checks.before((0, 1), told.append)
    world.pass_all(Exit(2, "gpu1 has no link"))
    assert told == ["check c is bad: gpu1 has no link"]


def test_who_asks_while_a_round_runs_waits_for_the_next() -> None:
    world = World("c")
    world.pass_all()
    told: list[str] = []
    world.checks.before((0, 1), told.append)
    world.tick()
    world.checks.before((0, 1), lambda reason: told.append(f"second {reason}"))
    world.tick(exits=WELL)
    world.tick()
    assert told == [""]
    assert world.tick() == [("c", "before")]


@given(st.lists(st.sampled_from(["tick", "exit", "before", "after", "hang"]), max_size=60))
def test_whoever_asked_is_told_once_and_one_runs_at_a_time(steps: list[Any]) -> None:
    world = World("a", "b")
    told: list[str] = []
    asked = 0
    for step in steps:
        if step == "before":
            asked += world.checks.before((0, 1), told.append)
        elif step == "after":
            world.checks.after((0, 1))
        else:
            starts = world.tick(20.0 if step == "hang" else 0.1, WELL if step == "exit" else None)
            assert len(starts) <= 1
    assert len(told) <= asked
    for _ in range(3 * (asked + len(steps)) + 20):
        world.tick(exits=WELL)
    assert len(told) == asked


def test_in_words() -> None:
    states = [CheckState("a", PENDING), CheckState("b", BAD, "no link"), CheckState("c", SUSPECT)]
    assert bad_checks_text(states) == "check a has not passed yet; check b is bad: no link"
    assert suspect_checks_text(states) == "check c is suspect"
