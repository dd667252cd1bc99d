"""The contract has as many behaviours as it says: at least two hundred."""

from __future__ import annotations

import ast
from pathlib import Path


def behaviours(source):
    """Return the names of the test functions in `source`. A test with many parameters counts
    once.
    """
    return [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_the_contract_has_at_least_two_hundred_behaviours():
    names = [
        name
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if path.name != Path(__file__).name
        for name in behaviours(path.read_text())
    ]
    assert len(set(names)) == len(names), "two behaviours share a name"
    assert len(names) >= 200
