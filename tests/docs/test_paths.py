"""Paths that the documents for people who change the code name exist."""

from __future__ import annotations

import re

import pytest
from tests.docs.programs import ROOT

PACKAGE = ROOT / "src" / "phalanx"
HOMES = [
    *(ROOT, PACKAGE, ROOT / "tests"),
    ROOT / "benchmarks" / "phalanx_benchmarks",
    ROOT / "research" / "phalanx_research",
]
"""Where a name may lie that a document gives without the folders above it."""
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for path in [
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "docs" / "ARCHITECTURE.md",
        ROOT / "docs" / "explanation" / "chaos-simulator.md",
        ROOT / "docs" / "explanation" / "how-it-works.md",
        ROOT / "docs" / "explanation" / "testing.md",
        *(ROOT / "docs" / "decisions").glob("*.md"),
    ]
)
NO_FILES = {"src/phalanx/scheduler/plugins/NAME.py", "phalanx-snapshot/1"}
"""A placeholder, and the name of a format."""
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|txt))`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def is_there(name: str) -> bool:
    if (ROOT / name).exists():
        return True
    if "/" not in name:
        return any(any(home.rglob(name)) for home in HOMES[1:])
    return any((home / name).exists() for home in HOMES)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_are_there(document: str) -> None:
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    named = set(PATH.findall(text)) - NO_FILES
    assert [name for name in sorted(named) if not is_there(name)] == []
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []
