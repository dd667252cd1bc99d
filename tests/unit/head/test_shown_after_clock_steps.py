"""Listings of past jobs, lost nodes and curves, after the clock of the head's machine was set."""

from __future__ import annotations

from typing import Any

import pytest
from tests.present import present
from tests.unit.head.test_clock_steps import STEPS, SteppedWorld
from tests.world.store import Ledger

from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.jobs import CommandJob, GetJob, ListJobs
from phalanx.protocol.requests.series import GetSeries


class Recording(SteppedWorld):
    """A head that records the history of jobs."""

    def __init__(self) -> None:
        super().__init__(ledger=Ledger())

    def records(self) -> list[Any]:
        self.write()
        self.ledger.keep()
        self.write()
        return list(self.ledger.rows.values())


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("step_s", STEPS)
def test_all_records_of_a_job_are_found_as_its_own(step_s: float, restarts: bool) -> None:
    world = Recording()
    world.submit()
    world.settle()
    began = present(world.ask(GetJob("job"))).submitted
    world.ask(CommandJob("job", "requeue"))
    world.ends(code=1)
    world.step(step_s)
    world.goes_on(30.0)
    world.settle()
    if restarts:
        world.restart()
        world.add("n1", CPU=2.0)
    [row] = present(world.ask(ListJobs()))
    assert row.submitted == pytest.approx(began + step_s), "as long ago as before"
    world.ends()
    records = world.records()
    assert [one.attempt for one in records] == [1, 2]
    assert {one.submitted for one in records} == {row.recorded_as} == {began}


@pytest.mark.parametrize("step_s", STEPS)
def test_a_lost_node_is_shown_for_an_hour(step_s: float) -> None:
    world = SteppedWorld()
    world.kill("n1")
    world.step(step_s)
    world.goes_on(3500.0, every_s=100.0)
    assert len(world.ask(GetStatus()).lost_nodes) == 1
    world.goes_on(200.0, every_s=100.0)
    assert world.ask(GetStatus()).lost_nodes == []


@pytest.mark.parametrize("step_s", STEPS)
def test_a_head_and_its_defects_are_as_old_as_they_are(step_s: float) -> None:
    world = SteppedWorld()
    began = world.now
    world.head.internal_errors.rows.clear()
    world.goes_on(20.0)
    world.head.internal_errors._show = lambda error: None
    world.head.internal_errors.add("job", ValueError("planted"))
    world.step(step_s)
    world.goes_on(30.0)
    wall = world.now + world.clock.ahead_s
    assert wall - world.ask(GetHealth()).began == pytest.approx(world.now - began, abs=2.0)
    assert wall - world.ask(GetStatus()).defects["job"].at == pytest.approx(30.0)


@pytest.mark.parametrize("step_s", STEPS)
def test_curves_go_on(step_s: float) -> None:
    world = SteppedWorld()
    world.ask(ListJobs())
    world.goes_on(100.0)
    world.step(step_s)
    world.goes_on(100.0)
    for seen in (200.0, 50.0):
        wall = world.now + world.clock.ahead_s
        told = world.ask(GetSeries(wall - seen))
        [points] = [one.points[0] for one in told.numbers if one.of == "running"]
        ages = [wall - at for at, _ in points]
        assert ages == sorted(ages, reverse=True)
        assert -10.0 <= ages[-1] <= 20.0
        assert len(ages) == pytest.approx(seen / 10.0, abs=2)
