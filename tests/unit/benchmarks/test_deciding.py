"""The decision benchmarks: their list, and their table."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from phalanx_benchmarks import deciding
from phalanx_benchmarks.command import run


@pytest.mark.parametrize(
    ("group", "expected"),
    [("all", ["placement"]), ("placement", ["placement"]), ("batch", []), ("engine", [])],
)
def test_only_groups_that_are_asked_for_and_there_are_run(monkeypatch, group, expected):
    monkeypatch.setattr(deciding, "MODULES", {"placement": "json", "batch": "no_such_module"})
    assert deciding.decision_groups(group) == expected


def test_the_table_shows_figures_and_leaves_out_details():
    rows = [
        {"measure": "full", "nodes": 10_000, "seconds": 0.123456, "parts": {"a": 1}},
        {"measure": "steady", "nodes": 100, "seconds": 12345.6, "parts": {}},
    ]
    shown = io.StringIO()
    console = Console(file=shown, width=80)
    console.print(deciding.decision_table("batch", rows))
    text = shown.getvalue()
    assert "parts" not in text
    assert "10,000" in text
    assert "0.123" in text
    assert "12,346" in text


def test_markdown_has_the_figures_of_groups_without_an_engine(monkeypatch, capsys):
    rows = [{"what": "2,000 commands", "array per s": 1234.5, "parts": {}}]
    monkeypatch.setattr("phalanx_benchmarks.command.measure_group", lambda name: rows)
    assert run(group="placement", markdown=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "Placement:",
        "",
        "| what | array per s |",
        "|---|---:|",
        "| 2,000 commands | 1,234 |",
        "",
    ]
    assert " cores of " in lines[6]
