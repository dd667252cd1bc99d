"""`phalanx explain`: its text, its data as JSON, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.unit.scheduler.cycle.lines import cases
from typer.testing import CliRunner

from phalanx.cli.typer_app import app
from phalanx.scheduler.cycle.explain import REASONS
from phalanx.scheduler.cycle.remedies import REMEDIES

TABLE = """
use allocate | gang | capacity(on=[allocatable]), predicates, nodeorder
case a gang too wide, one ahead, a full queue
node a 4c 4G
node b 4c 4G zone=x
queue q cap=6c,6G
queue r cap=1c,1G
gang wide q min=3
gang late q min=1 {created: 9}
gang small r min=1
gang runs q min=1 phase=Running
task w wide 3c 3G x3
task v late 9c 1G
task s small 2c 1G
task d runs 1c 1G @a
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cycle.yaml"
    path.write_text(yaml.safe_dump({"format": "phalanx-snapshot/1"} | cases(TABLE)[0]))
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    return result.exit_code, result.output


def test_all_that_waits(file: Path) -> None:
    code, out = run(file)
    assert code == 0
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert heads == [
        "podgroup default/wide of queue q waits: its nodes, even empty, hold 2 of the 3 tasks that "
        "it needs at once; queue q may hold 6 CPU and holds 1; this asks for 9 more; queue q may "
        "hold 5.6 GiB memory and holds 953.7 MiB; this asks for 8.4 GiB more",
        "podgroup default/late of queue q waits: queue q may hold 6 CPU and holds 1; this asks for "
        "9 more; no node, even empty, has 9 CPU (largest 4)",
        "podgroup default/small of queue r waits: queue r may hold 1 CPU and holds 0; this asks "
        "for 2 more",
    ]
    assert "  tasks default/w-0, default/w-1, default/w-2" in out


def test_a_podgroup_its_members_and_its_position(file: Path) -> None:
    code, out = run(file, "late")
    assert code == 0
    assert "1 is ahead of it in queue q" in out
    assert "2 nodes lack CPU" in out or "no node, even empty, has 9 CPU (largest 4)" in out
    assert "to change that: ask for at most 4 CPU" in out


def test_a_quota(file: Path) -> None:
    code, out = run(file, "default/s")
    assert code == 0
    assert out.splitlines()[0] == (
        "task default/s waits: queue r may hold 1 CPU and holds 0; this asks for 2 more"
    )
    assert "raise what it may hold" in out


def test_a_task_that_runs(file: Path) -> None:
    assert run(file, "d") == (0, "task default/d runs on a\n")


def test_data(file: Path) -> None:
    code, out = run(file, "wide", "--json")
    (answer,) = json.loads(out)
    assert code == 0
    assert (answer["name"], answer["kind"], answer["waits"]) == ("default/wide", "podgroup", True)
    whole = next(r for r in answer["reasons"] if r["reason"] == "gang-not-whole")
    assert whole["detail"]["minimum"] == 3
    assert [t["names"] for t in answer["tasks"]] == [["default/w-0", "default/w-1", "default/w-2"]]


def test_nothing_waits(tmp_path: Path) -> None:
    path = tmp_path / "calm.yaml"
    path.write_text("format: phalanx-snapshot/1\nconfig: {actions: [allocate], tiers: []}\n")
    assert run(path) == (0, "no work waits\n")


def test_a_name_that_is_not_there(file: Path) -> None:
    code, out = run(file, "nobody")
    assert code == 3
    assert "no task or podgroup default/nobody" in out


def test_files_that_cannot_be_used(tmp_path: Path, file: Path) -> None:
    code, out = run(tmp_path / "none.yaml")
    assert (code, "cannot be read" in out) == (2, True)
    file.write_text("format: phalanx-snapshot/1\nnodse: []\n")
    code, out = run(file)
    assert code == 2
    assert f"{file}:2" in out
    assert "nodse" in out


def test_every_reason_has_its_remedy() -> None:
    assert set(REMEDIES) == set(REASONS)
