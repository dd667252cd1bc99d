"""`tools/prose.py` finds the forms of sentences that it names, and does not report plain
sentences.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load("prose")


GLOSSARY = """\
| word | meaning | from | retired |
|---|---|---|---|
| head | decides | Ray | control store |
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Who still waits, waits on.", ["Who still waits, waits on."]),
        ("It ends. Whoever waits is told.", ["Whoever waits is told."]),
        ("Of a bad GPU it says that it is well.", ["Of a bad GPU it says that it is well."]),
        ("It is placed again. So is a gang.", ["So is a gang."]),
        ("So the gang is placed again.", []),
        ("The first of them.", ["The first of them."]),
        ("That work by queue.", ["That work by queue."]),
        ("The first of the nodes.", []),
        ("Faults are told with a line.", ["are told with a line."]),
        ("Nodes are told the address.", []),
        ("It starts so many workers.", ["so many workers."]),
        ("Errors of ours are counted.", ["of ours are counted."]),
        ("The control-store answers.", ["control-store"]),
        ("Who may ask the head?", []),
        ("What happens when a node dies? Its work runs again.", []),
        ("Jobs that wait keep waiting.", []),
        ("There is a queue for each user.", []),
    ],
)
def test_a_sentence_of_a_document(tool: ModuleType, text: str, words: list[str]) -> None:
    retired = tool.retired_words(GLOSSARY)
    found = [one.words for one in tool.findings("docs/page.md", text, retired)]
    assert found == words


def test_code_blocks_and_tables_may_be_wide(tool: ModuleType) -> None:
    wide = "a long line of words " * 6
    page = f"{wide}\n\n```\n{wide}\n```\n| {wide} |\n"
    assert [one.line for one in tool.findings("docs/page.md", page, {})] == [1]


def test_comments_docstrings_and_texts_of_python_are_read(tool: ModuleType) -> None:
    source = '''"""Whose turn it is."""
# Who waits here is told.
LIMIT = 3
"""So many may wait."""


def ask() -> str:
    """See Engine."""
    control_store = "what it says"
    return control_store
'''
    found = [
        (one.line, one.words)
        for one in tool.findings("src/a.py", source, {"control store": "head"})
    ]
    assert found == [
        (2, "Who waits here is told."),
        (1, "Whose turn it is."),
        (4, "So many may wait."),
        (8, "See Engine."),
        (9, "control_store"),
        (10, "control_store"),
    ]


def test_a_retired_word_stands_with_its_successor(tool: ModuleType) -> None:
    assert tool.retired_words(GLOSSARY) == {"control store": "head"}


def test_the_glossary_has_one_meaning_a_word() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("|")]
    words = [word.strip() for row in rows for word in row.split(",")]
    named = [word for word in words if word and word != "word" and not word.startswith("-")]
    assert sorted(set(named)) == sorted(named)
    assert len(named) >= 80


def test_an_import_by_name_counts_as_an_import() -> None:
    tool = load("import_circles")
    source = """
import_module("phalanx.cli.jobs")
import_module(f"phalanx.api.{name}")
import_module("os")
"""
    assert list(tool.imports_by_name(source)) == ["phalanx.cli.jobs", "phalanx.api"]


def test_a_circle_is_found_and_a_chain_is_none() -> None:
    tool = load("import_circles")
    assert tool.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert tool.circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_an_import_of_a_room_above_is_found() -> None:
    tool = load("import_circles")
    edges = {"phalanx.model.x": {"phalanx.cli.jobs"}, "phalanx.cli.jobs": {"phalanx.model.x"}}
    assert tool.climbing(edges) == [
        "phalanx.model.x imports phalanx.cli.jobs, which is in a room above"
    ]
