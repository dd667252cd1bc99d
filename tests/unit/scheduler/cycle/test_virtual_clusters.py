"""The rules of the page on virtual clusters are accepted, and missing cells are warned of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.head.gangs.rules import RulesRow, read_rules
from phalanx.scheduler.cycle.cycle import run_cycle

PAGE = Path(__file__).parents[4] / "docs/howto/virtual-clusters.md"


def test_the_rules_of_the_page_are_accepted() -> None:
    rules = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    config = read_rules(RulesRow(text=rules[0], file="rules.yaml"))
    assert "virtual-clusters" in config.plugin_names()


SMALL = """
use allocate | gang, virtual-clusters(cells={a: {node: 2}, b: {rack: 1}}) | predicates
case small
node n 4c 4G 4gpu rack=r
node m 4c 4G 4gpu rack=s
queue a
queue b
"""


@pytest.mark.parametrize("node", ["", "node o 4c 4G 4gpu rack=t"])
def test_missing_cells_are_warned_of(node: str) -> None:
    warnings = run_cycle(snapshot_of(cases(SMALL + node)[0])).warnings
    said = "virtual-clusters: the cluster lacks 1 of the cells of level node"
    assert [w.startswith(said) for w in warnings] == ([] if node else [True])
