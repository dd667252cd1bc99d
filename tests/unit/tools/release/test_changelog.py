"""Joining the fragments in changelog.d into the change log."""

from __future__ import annotations

from types import ModuleType

import pytest

from .loading import ROOT, load

BEFORE = """# Changes

Words.

## Versions
Rules.

## 0.2.0 (unreleased)
No version before.

### Added

**Jobs**
- One job.

### Removed
- Old things.
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load("changelog")


def test_items_go_to_their_kind_and_topic_and_the_section_gets_its_date(tool: ModuleType) -> None:
    fragments = [
        ("added", "- Jobs have\n  colours.\n- The page has sounds.\n"),
        ("fixed", "A node no longer stops.\n"),
    ]
    found = tool.fold(BEFORE, fragments, "0.2.0", "2026-12-01")
    assert (
        found
        == """# Changes

Words.

## Versions
Rules.

## 0.2.0 (2026-12-01)

No version before.

### Added

**Jobs**
- One job.
- Jobs have colours.

**The web page**
- The page has sounds.

### Fixed

**Nodes and the head**
- A node no longer stops.

### Removed
- Old things.
"""
    )


def test_a_new_version_stands_before_the_older_ones(tool: ModuleType) -> None:
    found = tool.fold(BEFORE, [("fixed", "- One job fewer.")], "0.2.1", "2027-01-01")
    assert found.index("## Versions") < found.index("## 0.2.1 (2027-01-01)")
    assert found.index("## 0.2.1 (2027-01-01)") < found.index("## 0.2.0 (unreleased)")
    assert "## 0.2.1 (2027-01-01)\n\n### Fixed\n\n**Jobs**\n- One job fewer.\n" in found


def test_an_unknown_kind_is_refused(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match="no kind of change is called 'mended'"):
        tool.fold(BEFORE, [("mended", "- x")], "0.2.0", "2026-12-01")


def test_the_fragments_of_this_repository_can_be_folded(tool: ModuleType) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files = [one for one in (ROOT / "changelog.d").glob("*.md") if one.name != "README.md"]
    fragments = [(one.name.split(".")[-2], one.read_text(encoding="utf-8")) for one in files]
    found = tool.fold(changelog, fragments, "9.9.9", "2027-01-01")
    words = " ".join(found.split())
    items = [item for _, text in fragments for item in tool.items_of(text)]
    assert [item for item in items if " ".join(item.split()) not in words] == []
    assert max(map(len, found.splitlines())) <= max(100, *map(len, changelog.splitlines()))
