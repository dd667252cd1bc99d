"""Volcano's configuration: both published defaults are read, and a broken file changes nothing."""

from __future__ import annotations

import pytest

from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.config import CHART_YAML, parse_volcano
from phalanx.scheduler.cycle.registry import known_plugins

KNOWN = known_plugins()

DEFAULT_YAML = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""The configuration that Volcano's binary uses without a file."""


def test_both_defaults_are_read() -> None:
    binary, chart = (parse_volcano(t, KNOWN) for t in (DEFAULT_YAML, CHART_YAML))
    assert binary.actions == chart.actions == ("enqueue", "allocate", "backfill")
    assert set(chart.plugin_names()) - set(binary.plugin_names()) == {"binpack"}
    on = {p.name: p.is_on("preemptable") for tier in chart.tiers for p in tier}
    assert (on["gang"], on["drf"], on["priority"]) == (False, False, True)


def test_every_switch_but_hierarchy_is_on_unless_said() -> None:
    config = parse_volcano("actions: allocate\ntiers: [{plugins: [{name: drf}]}]", KNOWN)
    drf = config.tiers[0][0]
    assert drf.is_on("jobOrder")
    assert not drf.is_on("hierarchy")


BAD = [
    ("actions: [fly]\ntiers: []", 1, "no action 'fly'"),
    ("actions: allocate\ntiers:\n- plugins:\n  - name: gnag", 4, "no plugin 'gnag'"),
    ("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableFly: true", 5, "enableFly"),
    (
        "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n"
        "  - name: proportion",
        3,
        "cannot share a tier",
    ),
    ("actions: allocate\ntiers: [{plugins: [{name: gang}]}]\nmore: 1", 3, "no key 'more'"),
    ("tiers: []", 1, "actions"),
    ("actions: allocate\n\ttiers: []", 2, ""),
]


@pytest.mark.parametrize(("text", "line", "reason"), BAD)
def test_a_broken_file_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(BatchFileError) as refused:
        parse_volcano(text, KNOWN, "scheduler.yaml")
    assert str(refused.value).startswith(f"scheduler.yaml:{line}:")
    assert reason in str(refused.value)


def test_arguments_of_actions() -> None:
    text = DEFAULT_YAML + "configurations:\n- name: allocate\n  arguments: {a: 1}\n"
    assert parse_volcano(text, KNOWN).arguments_of("allocate") == {"a": 1}
