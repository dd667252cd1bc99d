"""Retries, homes of moved tasks, Volcano's quirks, which can be turned off, and the pure functions
of plugins.
"""

from __future__ import annotations

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.plugins.half_life import decayed

ROOM = """
node n 1c 1G
queue q
gang low q min=0 prio=1
gang high q min=1 prio=9
task a low 1c 1G @n
task b high 1c 1G
"""
RULES = "priority(on=[jobOrder, taskOrder, preemptable, jobStarving])"


@pytest.mark.parametrize(("arguments", "charged"), [("", True), ("(chargeRetries=false)", False)])
def test_an_eviction_need_not_cost_a_retry(arguments: str, charged: bool) -> None:
    table = f"use preempt{arguments} | {RULES}\ncase x{ROOM}"
    (eviction,) = run_cycle(snapshot_of(cases(table)[0])).evictions
    assert (eviction.task, eviction.counts_as_retry) == ("default/a", charged)


def test_a_moved_task_has_a_node_to_come_back_to() -> None:
    table = """
use consolidate | priority, gang | predicates, nodeorder
case x
node a 4c 4G
node b 4c 4G
queue q
gang s q min=1 phase=Running {annotations: {phalanx/movable: 10m}, started: -1000}
gang u q min=1 phase=Running {annotations: {phalanx/movable: 10m}, started: -1000}
gang big q min=1
task s s 1c 1G @a
task u u 1c 1G @b
task t big 4c 4G
"""
    plan = run_cycle(snapshot_of(cases(table)[0]))
    (eviction,) = plan.evictions
    cleared = plan.pipelined["default/t"]
    assert eviction.move_to in {"a", "b"} - {cleared}


def test_after_an_eviction_the_promise_is_kept() -> None:
    table = f"use allocate, preempt | {RULES}\ncase x{ROOM}"
    snapshot = snapshot_of(cases(table)[0])
    left = after(snapshot, run_cycle(snapshot))
    assert run_cycle(left).binds == {"default/b": "n"}


ROLE = """
use allocate | priority, gang | predicates, nodeorder
case x
node a 1c 1G zone=x
node b 1c 1G
queue q
gang g q min=2
task one g 1c 1G role=w prio=9 sel.zone=x
task two g 1c 1G role=w
"""


def test_a_node_that_refused_one_of_a_role_is_passed_over_by_the_others_in_volcano() -> None:
    (case,) = cases(ROLE)
    assert run_cycle(snapshot_of(case)).binds == {}
    case["config"] = case["config"] | {"compat": "none"}
    assert run_cycle(snapshot_of(case)).binds == {"default/one": "a", "default/two": "b"}


SURPLUS = """
use gangpreempt | priority, gang | predicates
case x
node a 4c 4G
queue q
gang low q min=1 prio=1 phase=Running
gang high q min=1 prio=9
task x low 1c 1G @a x4
task h high 1c 1G
"""


def test_all_that_is_safe_goes_as_one_in_volcano() -> None:
    (case,) = cases(SURPLUS)
    assert len(run_cycle(snapshot_of(case)).evicted) == 3
    case["config"] = case["config"] | {"compat": "none"}
    assert len(run_cycle(snapshot_of(case)).evicted) == 1
    case["nodes"][0]["capacity"] |= {"cpu": 5.0, "memory": 5e9}
    plan = run_cycle(snapshot_of(case))
    assert (plan.evicted, plan.binds) == ((), {"default/h": "a"})


def test_use_is_forgotten_by_halves() -> None:
    assert decayed(1.0, 0.0, 60, 60) == 0.5
    assert decayed(0.3, 0.3, 17, 60) == pytest.approx(0.3)
    assert decayed(0.0, 1.0, 120, 60) == 0.75
    with pytest.raises(ValueError, match="positive"):
        decayed(1, 1, 1, 0)
