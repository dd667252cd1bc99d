"""Tables at three widths: names are never cut, and reasons are wrapped between words."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.dashboard.world import NOW, description, job, node

from phalanx.cli.job_list import JOBS
from phalanx.cli.job_view import crons_text, flows_text, hypernodes_text, job_text
from phalanx.cli.layout import width_of, wrapped
from phalanx.cli.listing import fitted_table, listing
from phalanx.cli.table import table
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import HyperNodeInfo
from phalanx.model.rows.work import CronInfo, FlowInfo, MemberInfo

WIDTHS = (80, 120, 200)
LONG = "llama-pretrain-with-a-long-name-that-is-never-cut"
WIDE = "学習-大規模言語モデル-事前学習"
WHY = "the step before it failed, and nobody has said what is to be done with the steps after it"


def members() -> str:
    row = description(job("waits", st.FAILED))
    found = [
        MemberInfo(
            name=name, state="Failed", attempt=2, node=node(1).node_id,
            devices={"GPU": list(range(8))}, exit_code=137, reason=WHY, started=NOW - 60,
            ended=NOW, logs=[],
        )
        for name in (f"{LONG}-0", f"{WIDE}-1")
    ]  # fmt: skip
    return job_text(_with(row, members=found), [], name=lambda _: "gpu-1")


def _with(row: Any, **fields: Any) -> Any:
    return type(row)(**{name: getattr(row, name) for name in row.__struct_fields__} | fields)


def flows() -> str:
    steps = {"prepare": "Completed", "train": "Failed"}
    rows = [
        FlowInfo(
            name=name, namespace="default", state="Failed", reason=WHY, submitted=NOW, steps=steps
        )
        for name in (LONG, WIDE)
    ]
    return flows_text(rows, NOW + 60)


def crons() -> str:
    rows = [
        CronInfo(
            name=name, namespace="default", schedule="0 3 * * 1-5", state="Active",
            active=[f"{name}-1", f"{name}-2"], last_scheduled=NOW, last_success=NOW - 60,
        )
        for name in (LONG, WIDE)
    ]  # fmt: skip
    return crons_text(rows)


def hypernodes() -> str:
    nodes = [f"gpu-node-with-a-name-{number}" for number in range(12)]
    rows = [
        HyperNodeInfo(name=name, tier=1, tier_name="rack", parent="hall", nodes=nodes)
        for name in (LONG, WIDE)
    ]
    return hypernodes_text(rows)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def become(width: int) -> None:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr(sys, "stdout", Terminal())

    return become


TABLES = (members, flows, crons, hypernodes)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("text", TABLES, ids=lambda one: one.__name__)
def test_names_are_whole_and_lines_fit(
    text: Callable[[], str], width: int, terminal: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    terminal(width)
    found = text()
    monkeypatch.undo()
    of_table = found if text is not members else found.split("\n\n")[1]
    assert max(map(width_of, of_table.splitlines())) <= width
    for name in (LONG, WIDE):
        assert name in found
    if text is crons and width == 200:
        assert f"{LONG}-1" in found and f"{WIDE}-2" in found
    if text is hypernodes:
        assert all(f"gpu-node-with-a-name-{number}" in found for number in range(12))
    if text in (members, flows):
        assert set(WHY.split()) <= set(of_table.split()), "words are whole"


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_of_wide_letters_begin_at_one_place(
    width: int, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(width)
    lines = table(("NAME", "STATE"), [[WIDE, "Running"], ["short", "Running"]]).splitlines()
    monkeypatch.undo()
    places = {width_of(line[: line.index(word)]) for line, word in zip(
        lines, ("STATE", "Running", "Running"), strict=True)}  # fmt: skip
    assert len(places) == 1


@pytest.mark.parametrize("width", WIDTHS)
def test_without_rows_there_are_heads_alone(
    width: int, terminal: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(width)
    found = [table(("A", "B"), []), fitted_table(("A", "B"), [], {}), listing(JOBS, [])]
    monkeypatch.undo()
    assert found[:2] == ["A  B", "A  B"]
    assert found[2].startswith("NAME") and "\n" not in found[2]


def test_signs_that_have_no_width_of_their_own_count_nothing() -> None:
    """The characters are the Hindi sign virama, an accent, and a circle that surrounds the letter
    before it.
    """
    assert width_of("न\u094d") == 1
    assert width_of("e\u0301") == 1
    assert width_of("e\u20dd") == 1


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("a-name-that-is-long b", 5, ["a-name-that-is-long", "b"]),
        ("日本 日本 日本", 9, ["日本 日本", "日本"]),
        ("a " + "x" * 85 + " b", 40, ["a", "x" * 40, "x" * 40, "xxxxx b"]),
    ],
)
def test_texts_take_lines_of_whole_words(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width, 80) == lines
