"""Ratios, means and tables from given outcomes."""

from __future__ import annotations

import json

import pytest

from phalanx.bench import report
from phalanx.bench.command import run
from phalanx.bench.row import Row
from phalanx.bench.rows import MICROBENCHMARK, ROWS
from phalanx.bench.runner import (
    RAY_PYTHON,
    Outcome,
    PeerMissing,
    Result,
    Side,
    compare,
    measure,
    ray_side,
)

OURS = Side(name="phalanx", version="1", command=())
PEER = Side(name="ray", version="2", command=())


def row(name="calls", **changes):
    values = {"unit": "/s", "sample": lambda api, effort: [], "group": "microbenchmark"}
    return Row(name=name, **{**values, **changes})


def result(ours, theirs=None, **changes):
    def outcome(samples):
        return Outcome(samples=tuple(samples)) if samples else None

    return Result(row=row(**changes), phalanx=outcome(ours) or Outcome(), peer=outcome(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs", "more_is_better", "ratio"),
    [
        ([30, 10, 20], [2, 5, 4], True, 5),
        ([1, 2, 3], [8], False, 4),
        ([1], None, True, None),
        ([0.0], [5], False, None),
    ],
)
def test_the_ratio_says_how_many_times_better(ours, theirs, more_is_better, ratio):
    assert result(ours, theirs, more_is_better=more_is_better).ratio == ratio


def test_the_geometric_means():
    results = [
        result([20], [1], name="a"),
        result([5], [1], name="b"),
        result([2], [1], name="c", unit="GB/s"),
        result([1000], [1], name="d", group="starting"),
        result([7], name="e"),
    ]
    assert report.geometric_means(results) == {
        "all rows": pytest.approx(200 ** (1 / 3)),
        "without the gigabyte rows": pytest.approx(10),
    }
    assert report.geometric_means([result([7])]) == {}


def test_the_share_of_a_floor_needs_the_floor_in_the_same_run():
    put = result([8], name="put", floors=("copy", "other"))
    assert report.shares_of_floor([put]) == []
    assert report.shares_of_floor([put, result([10], name="copy")]) == [("put", "copy", 0.8)]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "/s", "–"),
        (0, "MiB", "0 MiB"),
        (0.12345, "s", "0.123 s"),
        (12.345, "MiB", "12.3 MiB"),
        (277_123.4, "/s", "277,123 /s"),
    ],
)
def test_figures(value, unit, text):
    assert report.shown(value, unit) == text


def test_the_markdown_table():
    results = [result([20], [1], name="a"), result([7], name="b")]
    lines = report.as_markdown(results, PEER).splitlines()
    assert lines[:4] == [
        "| row | Phalanx | Ray 2 | times better |",
        "|---|---:|---:|---:|",
        "| a | 20 /s | 1 /s | 20.0× |",
        "| b | 7 /s | – | – |",
    ]
    assert any("geometric mean" in line for line in lines)


def test_the_document_is_json():
    results = [
        result([20], [1]),
        Result(row=row("broken"), phalanx=Outcome(error="no"), peer=None),
    ]
    shown = json.loads(
        json.dumps(report.as_document(results, ours=OURS, peer=PEER, effort_name="quick"))
    )
    assert shown["versions"] == {"phalanx": "1", "ray": "2"}
    assert shown["rows"][0]["ratio"] == 20
    assert shown["rows"][1]["phalanx"] == {"error": "no"}
    assert shown["machine"]["cores"] >= 1


def test_each_row_is_measured_on_both_sides_in_turn():
    asked = []

    def run_row(side, row, effort_name):
        asked.append((side.name, row.name, effort_name))
        return Outcome(samples=(1.0,))

    rows = [row("a"), row("b", peer=False)]
    results = list(compare(rows, ours=OURS, peer=PEER, effort_name="quick", run=run_row))
    assert asked == [
        ("phalanx", "a", "quick"),
        ("ray", "a", "quick"),
        ("phalanx", "b", "quick"),
    ]
    assert results[1].peer is None


def program(text):
    import sys

    return Side(name="phalanx", version="1", command=(sys.executable, "-c", text))


def test_a_side_answers_with_one_line_among_others():
    side = program("print('noise'); print('{\"samples\": [1, 2]}')")
    assert measure(side, row(), "quick") == Outcome(samples=(1, 2))


def test_a_side_that_dies_is_an_outcome():
    side = program("import sys; sys.exit('out of luck')")
    outcome = measure(side, row(), "quick")
    assert outcome.error is not None
    assert "code 1" in outcome.error
    assert "out of luck" in outcome.error


def test_the_rows_have_names_of_their_own():
    names = [each.name for each in ROWS]
    assert len(names) == len(set(names))
    floors = {floor for each in ROWS for floor in each.floors}
    assert floors <= set(names)
    assert len(MICROBENCHMARK) == 23


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"peer": "dask"}, "the peers are: ray"),
        ({"group": "gpu"}, "the groups are"),
        ({"rows": ["no such row"]}, "single client tasks sync"),
    ],
)
def test_bad_options_are_explained(options, text, capsys):
    assert run(**options) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("python", "text"),
    [
        ("/bin/false", r"pip install phalanx\[bench\]"),
        ("/nowhere/python", "cannot be started"),
    ],
)
def test_a_missing_peer_says_what_to_do(monkeypatch, python, text):
    monkeypatch.setenv(RAY_PYTHON, python)
    with pytest.raises(PeerMissing, match=text):
        ray_side()
