"""Paths that are named in the documents for contributors exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.programs import ROOT

PACKAGE = ROOT / "src" / "phalanx"
HOMES = [
    *(ROOT, PACKAGE, ROOT / "tests"),
    ROOT / "benchmarks" / "phalanx_benchmarks",
    ROOT / "research" / "phalanx_research",
]
"""The folders that a document may leave out when it names a file."""
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
        *PACKAGE.rglob("README.md"),
    ]
)
ROOMS = sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("README.md"))
NO_FILES = {
    *("src/phalanx/scheduler/plugins/NAME.py", "adapters/HOST.py"),
    *("HOST.yaml", "tools/integrations/hosts/HOST.yaml", "phalanx-snapshot/1"),
}
"""Names that are placeholders or formats, and not files."""
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|toml|txt))`")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def is_there(name: str, folder: Path) -> bool:
    """Whether a file exists that a document in `folder` names, relative to the root, to `folder` or
    its parent, or to one of HOMES.
    """
    if any((start / name).exists() for start in (ROOT, folder, folder.parent)):
        return True
    if "/" not in name:
        return any(any(home.rglob(name)) for home in HOMES[1:])
    return any((home / name).exists() for home in HOMES)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_are_there(document: str) -> None:
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    named = set(PATH.findall(text)) - NO_FILES
    assert [name for name in sorted(named) if not is_there(name, path.parent)] == []
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_readme_names_all_that_lies_next_to_it(room: str) -> None:
    text = (PACKAGE / room / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    beside = [
        path.stem
        for path in (PACKAGE / room).iterdir()
        if path.suffix == ".py" or any(path.glob("*.*"))  # a folder with files
        if not path.name.startswith("__")
    ]
    assert [name for name in sorted(beside) if name not in named] == []
