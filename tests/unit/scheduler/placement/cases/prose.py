"""Rows that others wrote in prose, rewritten by hand in the strict form. No program guesses what
they mean.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

BY_HAND: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("prose.yaml").read_text(encoding="utf-8")
)
_SEVERAL = re.compile(r"(.+) \(x(\d+)\)")


def strict(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, with those in BY_HAND and those of domains with many nodes in the strict
    form.
    """
    return [one for row in rows for one in _of(row)]


def _of(row: dict[str, Any]) -> list[dict[str, Any]]:
    known = BY_HAND.get(row["id"])
    if known is not None:
        text = yaml.safe_dump(row, width=1000)
        missing = [words for words in known["words"] if words not in text]
        assert not missing, f"{row['id']} does not say {missing} any more"
        means: list[dict[str, Any]] = known["means"]
        return means
    if row["id"] == "bun-36":
        return [_domains(row)]
    return [row]


def _domains(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row about domains in the strict form. For example, `rack2 (x2)` means two equal
    nodes.
    """
    assert row["bundles"] == "15 x {CPU 2, GPU 4}"
    assert row["strategy"] == "PACK within one ray.io/gpu-domain"
    nodes: dict[Any, Any] = {}
    for name, node in row["nodes"].items():
        found = _SEVERAL.fullmatch(name)
        assert found is not None, name
        nodes |= {f"{found[1]}.{at:02}": node for at in range(int(found[2]))}
    return {
        **row,
        "nodes": nodes,
        "bundles": [{"CPU": 2, "GPU": 4}] * 15,
        "strategy": "PACK",
        "domain_label": "ray.io/gpu-domain",
    }
