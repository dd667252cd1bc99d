"""When waiting work is expected to start, if run times are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of, written

from phalanx.cli.snapshots import explain_file
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.scheduler.forecast.inquiry import explain_snapshot

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

case work that has run over its time may end any moment big 1 1
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
        assert answer.expected_start is UNSET
        return
    at_s = case.get("now", 0.0) + float(in_s)
    found = answer.expected_start
    assert isinstance(found, ExpectedStart)
    assert (found.at_s, found.in_s, found.after_tasks) == (at_s, float(in_s), int(after_tasks))


def test_expected_start_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(written(cases(STARTS)[0]))
    assert explain_file(str(file), "big", as_json=False) == 0
    assert capsys.readouterr().out.splitlines()[4] == (
        "  expected to start in 1m30s (at 100), once 2 tasks have ended, if run times hold "
        "(time limits of 2 jobs), if no other job fills its places before"
    )
