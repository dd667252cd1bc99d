"""Every case of the tables gives the decisions that the table says, in whatever order its objects
are listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.scheduler.cycle.lines import cases, replay_text

from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.reading import read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.planner import lent

TABLES = sorted((Path(__file__).parent / "tables").glob("*.txt"))
CASES = [
    pytest.param(case, id=f"{table.stem}: {case['name']}")
    for table in TABLES
    for case in cases(table.read_text())
]
LISTS = ("nodes", "hypernodes", "queues", "podgroups", "tasks")


def written(case: dict[str, Any]) -> str:
    return yaml.safe_dump({"format": "phalanx-snapshot/1"} | case, sort_keys=False)


def snapshot_of(case: dict[str, Any]) -> Snapshot:
    return read_snapshots(written(case), known_plugins())[0]


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any]) -> None:
    outcome = replay_text(written(case))[0]
    assert case["expect"], "a case that expects nothing proves nothing"
    assert outcome.differences == ()


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_lists_changes_nothing(case: dict[str, Any]) -> None:
    turned = case | {k: case[k][::-1] for k in LISTS if k in case}
    plan = run_cycle(snapshot_of(case), shells=lent())
    other = run_cycle(snapshot_of(turned), shells=lent())
    assert plan == other


def test_names_of_cases_are_unique() -> None:
    names = [p.id for p in CASES]
    assert len(set(names)) == len(names)
