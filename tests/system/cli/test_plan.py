"""`phalanx plan`: of snapshot files, and of a cluster."""

from __future__ import annotations

import json

import msgspec
from typer.testing import CliRunner

from phalanx.cli.job_list import JOBS
from phalanx.cli.listing import listing
from phalanx.cli.plan_view import COLUMNS, plan_text
from phalanx.cli.typer_app import app
from phalanx.head.jobs.rows import job_row
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.rows.explanation import ExpectedStart
from phalanx.model.rows.plan import Basis, TimePlan

SNAPSHOT = """\
format: phalanx-snapshot/1
now: 100
config:
  actions: allocate
  tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}]}]
nodes:
- {name: a, capacity: {cpu: 32, memory: 1000000000, pods: 100, nvidia.com/gpu: 8}}
- {name: b, capacity: {cpu: 32, memory: 1000000000, pods: 100, nvidia.com/gpu: 8}}
queues: [{name: q}]
podgroups:
- {name: r, queue: q, minMember: 1, phase: Running, run_time_s: 60, started: 50}
- {name: s, queue: q, minMember: 1, phase: Running, run_time_s: 90, started: 100}
- {name: big, queue: q, minMember: 2, priority: 5, run_time_s: 30}
- {name: small, queue: q, minMember: 1, run_time_s: 20}
- {name: long, queue: q, minMember: 1}
- {name: never, queue: q, minMember: 1}
tasks:
- {name: r0, podgroup: r, node: a, phase: Running, request: {cpu: 4, nvidia.com/gpu: 6}}
- {name: s0, podgroup: s, node: b, phase: Running, request: {cpu: 4, nvidia.com/gpu: 8}}
- {name: b0, podgroup: big, request: {cpu: 4, nvidia.com/gpu: 8}}
- {name: b1, podgroup: big, request: {cpu: 4, nvidia.com/gpu: 8}}
- {name: m0, podgroup: small, request: {cpu: 4, nvidia.com/gpu: 2}}
- {name: l0, podgroup: long, request: {cpu: 4, nvidia.com/gpu: 2}}
- {name: n0, podgroup: never, request: {cpu: 64}}
"""


def test_a_snapshot_is_planned(tmp_path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SNAPSHOT)
    shown = CliRunner().invoke(app, ["plan", "--snapshot", str(file), "--json"])
    assert shown.exit_code == 0
    plan = json.loads(shown.stdout)
    found = {one["podgroup"]: one for one in plan["starts"]}
    assert plan["unknown"] == ["default/never"]
    big, small, long = (found[f"default/{name}"] for name in ("big", "small", "long"))
    assert (big["at_s"], big["ends_s"], big["fills"], big["after_tasks"]) == (190, 220, False, 2)
    assert [(p["node"], p["devices"]) for p in big["places"]] == [
        ("a", {"nvidia.com/gpu": 8}), ("b", {"nvidia.com/gpu": 8})
    ]  # fmt: skip
    assert big["basis"] == {"by_limit": 2, "by_past_runs": 0, "past_runs": 0}
    assert (small["at_s"], small["fills"]) == (100, True)
    assert (long["at_s"], long["ends_s"], long["fills"]) == (220, None, False)


def test_a_start_is_promised_where_cycles_keep_promises_alone(tmp_path) -> None:
    file = tmp_path / "s.yaml"
    keeping = SNAPSHOT.replace("{name: gang}", "{name: gang}, {name: reservation}")
    for text, is_promised in ((SNAPSHOT, False), (keeping, True)):
        file.write_text(text)
        shown = CliRunner().invoke(app, ["plan", "--snapshot", str(file), "--json"])
        found = {one["podgroup"]: one for one in json.loads(shown.stdout)["starts"]}
        assert found["default/big"]["is_promised"] is is_promised
        words = CliRunner().invoke(app, ["plan", "--snapshot", str(file)]).stdout
        assert ("promised" in words, "estimated" in words) == (is_promised, not is_promised)


def test_a_plan_in_words(tmp_path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(SNAPSHOT)
    lines = CliRunner().invoke(app, ["plan", "--snapshot", str(file)]).stdout.splitlines()
    axis = {line.split()[0]: line.split()[1] for line in lines[1:3]}
    assert {len(cells) for cells in axis.values()} == {COLUMNS}
    # 120 s in 60 places: r's six GPUs until 110, small's two until 120; big holds all from 190 on.
    assert axis["a"] == "8" * 5 + "2" * 5 + "." * 35 + "8" * 15
    assert axis["b"] == "8" * 60
    rows = {line.split()[0]: line for line in lines[5:] if line}
    assert "in 1m" in rows["big"]
    assert "estimated" in rows["big"]
    assert "time limits of 2 jobs" in rows["big"]
    assert rows["small"].split()[2:5] == ["now", "in", "20s"]
    assert lines[-1].endswith("never")


def test_a_plan_of_nothing() -> None:
    nothing = TimePlan(now=0.0, starts=(), unknown=(), running=())
    assert plan_text(nothing) == "No gang runs, and no gang waits."


def test_jobs_show_when_they_start() -> None:
    record = JobRecord(spec=JobSpec(name="a"), submitted=0.0)
    row = job_row(record, 0, 10.0)
    expected = ExpectedStart(
        at_s=100.0, in_s=90.0, after_tasks=1, basis=Basis(by_limit=1), is_promised=True
    )
    guess = msgspec.structs.replace(expected, is_promised=False)
    rows = [msgspec.structs.replace(row, expected_start=one) for one in (None, expected, guess)]
    head, *lines = listing(JOBS, rows).splitlines()
    at = head.index("START")
    assert [line[at : at + 9].strip() for line in lines] == ["", "in 1m30s", "in 1m30s?"]


def test_a_file_that_cannot_be_used(tmp_path) -> None:
    shown = CliRunner().invoke(app, ["plan", "--snapshot", str(tmp_path / "none.yaml")])
    assert shown.exit_code == 2
    assert "cannot be read" in shown.stderr


def test_a_cluster_says_what_it_plans(machine) -> None:
    machine.start_head("--num-cpus", "4", "--num-gpus", "4")
    assert json.loads(machine.done("plan", "--json"))["starts"] == []
    machine.done("run", "-d", "-n", "first", "--gpus", "4", "--", "sleep", "1000")
    machine.done("run", "-d", "-n", "second", "--gpus", "4", "--", "true")
    plan = json.loads(machine.done("plan", "--json"))
    assert plan["unknown"] == ["default/second"], "nobody knows when the first one ends"
    assert [one["podgroup"] for one in plan["running"]] == ["default/first"]
    assert plan["running"][0]["place"]["devices"] == {"nvidia.com/gpu": 4}
    compared = json.loads(machine.done("what-if", "--add-nodes", "1:CPU=4,GPU=4", "--json"))
    assert [(one["before_s"], one["after_s"]) for one in compared["starts"]] == [(None, 0.0)]
    assert len(json.loads(machine.done("nodes", "--json"))) == 1
