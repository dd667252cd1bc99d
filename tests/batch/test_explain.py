"""Why a task or a gang waits, as codes and as sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.batch.lines import cases
from tests.batch.test_tables import CASES, snapshot_of, written

from phalanx.batch.cycle import run_cycle
from phalanx.batch.explain import REASONS, sentences
from phalanx.batch.inquiry import explain_file, explain_snapshot

TABLE = """
use enqueue, allocate, preempt | priority, gang | overcommit, drf, predicates, proportion, nodeorder

case gang-tasks-missing g submit 1 more
node n 9c 9G
queue q
gang g q min=3
task t g 1c 1G x2

case gang-not-whole g 2 of 3 tasks would find room
node n 2c 2G
queue q
gang g q min=3
task t g 1c 1G x3

case never-fits t largest
node n 2c 2G
queue q
gang g q min=1
task t g 3c 1G

case resource t 1 nodes lack cpu (needs 3, most free 2)
node n 4c 4G
queue q
gang r q min=1 phase=Running
gang g q min=1
task r r 2c 1G @n fixed
task t g 3c 1G

case labels t 1 nodes
node n 2c 2G
queue q
gang g q min=1
task t g 1c 1G sel.disk=ssd

case taints t 1 nodes
node n 2c 2G !gone=:NoSchedule
queue q
gang g q min=1
task t g 1c 1G

case queue-closed t not open
node n 2c 2G
queue q closed
gang g q min=1
task t g 1c 1G

case queue-missing g there is no queue nowhere
node n 2c 2G
queue q
gang g nowhere min=1
task t g 1c 1G

case queue-capability g may use 1 of cpu, and would use 2
node n 9c 9G
queue q cap=1c,9G
gang g q min=1 res=2c,1G phase=Pending
task t g 2c 1G

case cluster-overcommitted g can promise
node n 1c 1G
queue q
gang g q min=1 res=2c,1G phase=Pending
task t g 2c 1G

case behind h 1 podgroups of queue q are ahead
node n 1c 1G
queue q
gang g q min=2 prio=9
gang h q min=2
task t g 1c 1G x2
task u h 1c 1G x2

case no-nodes t there are no nodes
queue q
gang g q min=1
task t g 1c 1G

case waiting-for-release b promised node n
node n 1c 1G
queue q
gang low q min=0 prio=1
gang high q min=1 prio=9
task a low 1c 1G @n
task b high 1c 1G
"""


@pytest.mark.parametrize("case", cases(TABLE), ids=lambda c: c["name"])
def test_reason(case: dict[str, str]) -> None:
    reason, who, *words = case["name"].split(" ")
    plan = run_cycle(snapshot_of(case))
    found = plan.rejections[f"default/{who}" if who != "t" else _first_task(plan.rejections)]
    assert reason in [r.reason for r in found]
    name = f"default/{who}" if who != "t" else _first_task(plan.rejections)
    assert " ".join(words) in " / ".join(sentences(plan, name))


def _first_task(rejections: object) -> str:
    assert isinstance(rejections, dict)
    return next(n for n in rejections if n.startswith("default/t"))


@pytest.mark.parametrize("case", CASES)
def test_whatever_waits_says_why(case: dict[str, object]) -> None:
    snapshot = snapshot_of(case)
    plan = run_cycle(snapshot)
    for task in snapshot.tasks:
        if task.node or task.uid in plan.binds or task.phase != "Pending":
            continue
        own = plan.rejections.get(task.uid, ())
        gang = plan.rejections.get(f"{task.namespace}/{task.podgroup}", ())
        for r in (*own, *gang):
            assert r.reason in REASONS
        assert own or gang, f"{task.uid} waits and nothing says why"
        for name in (task.uid, f"{task.namespace}/{task.podgroup}"):
            assert not any("{" in s for s in sentences(plan, name))


STARTS = """
use allocate | priority, gang | predicates, proportion

case once both have ended big 90 2
now 10
node n 4c 4G
queue q
gang r q phase=Running {run_time_s: 50, started: 0}
gang s q phase=Running {run_time_s: 100, started: 0}
gang big q min=4
task r r 1c 1G @n
task s s 1c 1G @n
task b big 1c 1G x4

case one behind another, for as long as that one runs small 190 5
now 10
node n 4c 4G
queue q
gang r q phase=Running {run_time_s: 50, started: 0}
gang s q phase=Running {run_time_s: 100, started: 0}
gang big q min=3 prio=9 {run_time_s: 100}
gang small q min=2 prio=1
task r r 1c 1G @n
task s s 3c 3G @n
task b big 1c 1G x3
task l small 2c 2G x2

case work that was placed in this cycle counts big 30 1
now 10
node n 1c 1G
queue q
gang r q min=1 prio=9 {run_time_s: 30}
gang big q min=1
task r r 1c 1G
task b big 1c 1G

case work that has run over its time may end at once big 0 1
now 500
node n 1c 1G
queue q
gang r q phase=Running {run_time_s: 30, started: 0}
gang big q min=1
task r r 1c 1G @n
task b big 1c 1G

case only nodes with the labels count big 70 2
now 0
node m 1c 1G
node n 1c 1G disk=ssd
queue q
gang r q phase=Running {run_time_s: 30, started: 0}
gang s q phase=Running {run_time_s: 70, started: 0}
gang big q min=1
task r r 1c 1G @m
task s s 1c 1G @n
task b big 1c 1G sel.disk=ssd

case nobody knows when what is in the way ends big - -
node n 1c 1G
queue q
gang r q phase=Running {run_time_s: 30}
gang big q min=1
task r r 1c 1G @n
task b big 1c 1G

case no node could ever hold it big - -
node n 1c 1G
queue q
gang r q phase=Running {run_time_s: 30, started: 0}
gang big q min=1
task r r 1c 1G @n
task b big 2c 1G

case the queue has room again big 20 1
now 10
node n 4c 4G
queue q cap=1c,1G
gang r q phase=Running {run_time_s: 30, started: 0}
gang big q min=1
task r r 1c 1G @n
task b big 1c 1G

case the queue never has room big - -
node n 4c 4G
queue q cap=0.5c,1G
gang r q phase=Running {run_time_s: 30, started: 0}
gang big q min=1
task r r 1c 1G @n
task b big 1c 1G
"""


@pytest.mark.parametrize("case", cases(STARTS), ids=lambda c: c["name"])
def test_expected_start(case: dict[str, Any]) -> None:
    *_, who, in_s, after_tasks = case["name"].split(" ")
    answer = explain_snapshot(snapshot_of(case), f"default/{who}")[0]
    if in_s == "-":
        assert "expected_start" not in answer
        return
    at_s = case.get("now", 0.0) + float(in_s)
    expected = {"at_s": at_s, "in_s": float(in_s), "after_tasks": int(after_tasks)}
    assert answer["expected_start"] == expected


def test_expected_start_in_words(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(written(cases(STARTS)[0]))
    out: list[str] = []
    assert explain_file(str(file), "big", as_json=False, write=out.append, complain=print) == 0
    assert out[1] == (
        "  expected to start in 90 s (at 100), once 2 tasks have ended, if run times hold"
    )
