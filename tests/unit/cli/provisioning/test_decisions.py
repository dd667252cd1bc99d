"""Decisions to start and end machines, in virtual time."""

from __future__ import annotations

import msgspec

from phalanx.cli.provisioning.decisions import (
    FIRST_PAUSE_S,
    Down,
    Drain,
    PoolState,
    Seen,
    Undrain,
    Up,
)
from phalanx.cli.provisioning.pools import Pool

POOL = Pool(
    name="gpu", up=("up",), down=("down",), resources={"CPU": 2.0}, max=3, idle_s=60, boot_s=100
)


def node(name: str, *, idle: bool = False, ending: bool = False) -> Seen:
    return Seen(name=name, node_id=f"id of {name}", is_idle=idle, is_ending=ending)


def test_as_many_machines_are_started_as_work_needs() -> None:
    state = PoolState(POOL)
    assert state.decide([], 2, 0.0) == [Up(POOL, ("gpu-1", "gpu-2"))]


def test_machines_that_boot_are_not_started_again_and_their_names_are_taken() -> None:
    state = PoolState(POOL)
    state.began(["gpu-1"], 0.0)
    assert state.decide([], 0, 1.0) == []
    assert state.decide([node("gpu-2")], 1, 2.0) == [Up(POOL, ("gpu-3",))]


def test_a_pool_never_grows_beyond_its_maximum() -> None:
    state = PoolState(POOL)
    assert state.room([node("gpu-1")]) == 2
    assert state.decide([node("gpu-1")], 9, 0.0) == [Up(POOL, ("gpu-2", "gpu-3"))]


def test_a_minimum_is_kept_without_any_work() -> None:
    pool = msgspec.structs.replace(POOL, min=2)
    assert PoolState(pool).decide([], 0, 0.0) == [Up(pool, ("gpu-1", "gpu-2"))]
    idle = [node("gpu-1", idle=True), node("gpu-2", idle=True)]
    state = PoolState(pool)
    assert state.decide(idle, 0, 0.0) == state.decide(idle, 0, 1000.0) == []


def test_an_idle_node_drains_first_and_its_machine_ends_when_it_is_drained() -> None:
    state = PoolState(POOL)
    idle = node("gpu-1", idle=True)
    assert state.decide([idle], 0, 0.0) == []
    assert state.decide([idle], 0, 59.0) == []
    assert state.decide([idle], 0, 60.0) == [Drain(POOL, idle)]
    drained = node("gpu-1", idle=True, ending=True)
    assert state.decide([drained], 0, 61.0) == [Down(POOL, ("gpu-1",), "is idle and drained")]
    assert state.decide([drained], 0, 62.0) == [], "the program was told once"
    assert state.decide([drained], 0, 200.0) == [Down(POOL, ("gpu-1",), "is idle and drained")]


def test_work_on_a_node_begins_its_idle_time_again() -> None:
    state = PoolState(POOL)
    assert state.decide([node("gpu-1", idle=True)], 0, 0.0) == []
    assert state.decide([node("gpu-1")], 0, 50.0) == []
    assert state.decide([node("gpu-1", idle=True)], 0, 100.0) == []
    assert state.decide([node("gpu-1", idle=True)], 0, 159.0) == []


def test_work_that_came_while_a_node_drained_still_runs_there_before_it_ends() -> None:
    state = PoolState(POOL)
    assert state.decide([node("gpu-1", ending=True)], 0, 0.0) == []


def test_a_draining_node_is_taken_back_before_a_machine_is_started() -> None:
    state = PoolState(POOL)
    ending = node("gpu-1", ending=True)
    assert state.decide([ending], 2, 0.0) == [Undrain(POOL, ending), Up(POOL, ("gpu-2",))]


def test_a_node_that_does_not_join_is_ended_and_the_pool_pauses() -> None:
    state = PoolState(POOL)
    state.began(["gpu-1"], 0.0)
    assert state.decide([], 0, 100.0) == []
    late = state.decide([], 1, 101.0)
    assert late == [Down(POOL, ("gpu-1",), "did not join within 100 s")]
    assert state.decide([], 1, 101.0 + FIRST_PAUSE_S - 1) == []
    assert state.decide([], 1, 101.0 + FIRST_PAUSE_S) == [Up(POOL, ("gpu-1",))]


def test_pauses_grow_with_each_failure_and_end_with_a_node_that_joins() -> None:
    state = PoolState(POOL)
    state.failed(0.0)
    state.failed(100.0)
    assert state.decide([], 1, 100.0 + FIRST_PAUSE_S) == []
    assert state.decide([], 1, 100.0 + 2 * FIRST_PAUSE_S) == [Up(POOL, ("gpu-1",))]
    state.began(["gpu-1"], 200.0)
    state.decide([node("gpu-1")], 0, 210.0)
    state.failed(300.0)
    assert state.decide([node("gpu-1")], 1, 300.0 + FIRST_PAUSE_S) == [Up(POOL, ("gpu-2",))]


def test_nodes_that_booted_when_the_last_process_ended_are_not_forgotten() -> None:
    state = PoolState(POOL, {"gpu-1": 0.0})
    assert state.decide([], 0, 101.0) == [Down(POOL, ("gpu-1",), "did not join within 100 s")]
