"""The comparison with real Slurm, tested without Slurm: its tables, and its reading of answers that
real Slurm gave.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from phalanx_benchmarks.beside import rows
from phalanx_benchmarks.beside.command_cases import (
    FILE,
    LAUNCHERS,
    ORDERS,
    REFUSED,
    TORCH,
    read_cases,
)
from phalanx_benchmarks.beside.plot import drawing
from phalanx_benchmarks.beside.rows import Row, kind_of, report
from phalanx_benchmarks.beside.share_cases import row_of, shown
from phalanx_benchmarks.beside.systems import SYSTEMS, read_programs
from phalanx_benchmarks.beside.workloads import CPUS, NODES, Outcome, Pair, drawn, summary

SVG = "{http://www.w3.org/2000/svg}"
TREES = Path(__file__).with_name("slurm_trees.txt").read_text().split("\n\n")[1:]


@pytest.mark.parametrize("text", TREES)
def test_our_rule_gives_the_ranks_that_real_slurm_printed(text) -> None:
    assert row_of("tree", shown(text)) == Row(
        "tree", rows.SAME, *[f"{len([x for x in shown(text) if x.user])} users"] * 2
    )


def test_another_rank_is_seen() -> None:
    text = TREES[0].replace("0.750000|1.000000", "0.625000|1.000000")
    row = row_of("tree", shown(text))
    assert (row.kind, row.theirs, row.ours) == (
        rows.DIFFERS, "a0/irc 0.625000 1.000000", "a0/irc 0.750000 1.000000",
    )  # fmt: skip


def test_tied_accounts_are_ranked_as_one_and_real_slurm_does_not() -> None:
    """The lines are what Slurm 22.05.8 printed for accounts without any use. docs/howto/shares.md
    has Phalanx's rule.
    """
    lines = (
        " root|root|1|0|1.000000|inf\n a0||2|0||inf\n  a0|irc|1|0|0.250000|inf\n"
        " a3||2|0||inf\n  a3|mail|1|0|1.000000|inf\n"
    )
    row = row_of("tree", shown(lines))
    assert (row.kind, row.ours) == (rows.ON_PURPOSE, "a0/irc 1.000000 inf")


def test_accounts_that_only_hidden_digits_tell_apart_are_tied() -> None:
    """The lines are what Slurm 22.05.8 printed. If the use is compared without fractions, the
    second account comes first.
    """
    lines = (
        " root|root|1|0|1.000000|inf\n a1||4|1599938||2.071428\n"
        "  a1|list|2|1399946|0.500000|0.571429\n  a1|uucp|2|199992|0.750000|3.999995\n"
        " a2||1|399984||2.071427\n  a2|lp|1|399984|0.250000|1.000000\n"
    )
    row = row_of("tree", shown(lines))
    assert (row.kind, row.ours.count("\n"), "a2/lp 0.750000" in row.ours) == (
        rows.ON_PURPOSE, 2, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("file", "least"), [(FILE, 100), (ORDERS, 15), (LAUNCHERS, 15), (TORCH, 8)]
)
def test_each_line_has_a_name_of_its_own(file, least) -> None:
    cases = read_cases(file.read_text())
    assert len({case.key for case in cases}) == len(cases) >= least


def test_all_lines_of_the_table_can_be_read() -> None:
    cases = read_cases(FILE.read_text())
    assert len({case.key for case in cases}) == len(cases) > 100
    assert any(case.known.startswith(REFUSED) for case in cases)
    with pytest.raises(ValueError, match="it takes one line and one answer"):
        read_cases("a\n  echo\n")


@pytest.mark.parametrize(
    ("theirs", "ours", "known", "kind"),
    [
        ("a", "a", {"mended": False, "why": ""}, rows.SAME),
        ("a", "a", {"mended": True, "why": ""}, rows.MENDED),
        ("a", "b", {"mended": True, "why": ""}, rows.DIFFERS),
        ("a", "b", {"mended": False, "why": "so"}, rows.ON_PURPOSE),
        ("a", "b", {"mended": False, "why": "so", "is_refused": True}, rows.REFUSED),
    ],
)
def test_kinds_of_rows(theirs, ours, known, kind) -> None:
    assert kind_of(theirs, ours, **known) == kind


def test_the_report_shows_what_differs_and_counts_the_rest() -> None:
    text = report([Row("x", rows.SAME, "1", "1"), Row("y", rows.DIFFERS, "1\n2", "")])
    assert text.splitlines() == [
        "DIFFERS               y", "    theirs  1", "    theirs  2", "    ours    (nothing)", "",
        "2 rows: 1 same, 0 ours mended, 0 different on purpose, 0 refused by name, 1 DIFFERS",
    ]  # fmt: skip


def test_a_seed_draws_the_same_workload_again() -> None:
    jobs = drawn(3)
    assert jobs == drawn(3) != drawn(4)
    assert all(job.nodes <= NODES and job.cpus <= CPUS for job in jobs)
    assert all(0.5 <= job.runs_s <= 6.0 and job.runs_s + 2 <= job.limit_s <= 59 for job in jobs)
    words = jobs[0].words(0, "/d", in_minutes=True)
    assert "--time=1" in words and "--time=0:" not in " ".join(words)


def test_figures_of_both_sides() -> None:
    slow, fast = (Outcome(2 * n, [2 * n, 0.0], 0.5 / n, [1.0 * n], 0) for n in (2.0, 1.0))
    lines = summary([Pair(1, slow, fast)]).splitlines()
    assert lines[1].endswith("ratio 0.50 [0.50, 0.50]")
    assert (slow.mean_s, slow.p95_s, fast.p95_s) == (2.0, 4.0, 2.0)
    bars = ElementTree.fromstring(drawing([Pair(1, slow, fast)])).iter(f"{SVG}rect")
    tall = [float(bar.get("height", "")) for bar in bars][3:]
    assert tall == [170.0, 85.0] * 3  # of each figure, theirs and ours


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_programs_of_both_sides_can_be_compiled(name) -> None:
    opening, *cases = read_programs(SYSTEMS[name].cases.read_text())
    assert len({case.key for case in cases}) == len(cases) > 20
    for case in (opening, *cases):
        compile(case.theirs, case.key, "exec")
        compile(case.ours, case.key, "exec")
    assert all(case.known for case in cases)


def test_a_block_may_have_one_program_for_both_sides() -> None:
    text = "=== opening\n--- theirs\na\n--- ours\nb\n=== one\n= ok\n--- both\nc\n"
    opening, one = read_programs(text)
    assert (opening.theirs.strip(), opening.ours.strip()) == ("a", "b")
    assert (one.key, one.known, one.theirs.strip(), one.ours.strip()) == ("one", "ok", "c", "c")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("=== opening\n--- theirs\na\n--- ours\nb\n=== one\n--- theirs\na\n--- ours\nb", "one: a"),
        ("=== opening\n--- theirs\na\n--- ours\nb\n=== one\n= ok\n--- theirs\na", "one: a"),
        ("=== one\n= ok\n--- theirs\na\n--- ours\nb", "the first block"),
        ("", "the first block"),
    ],
)
def test_a_file_of_programs_with_a_part_missing_is_refused(text, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_programs(text)
