"""Ratios, means and tables from given outcomes."""

from __future__ import annotations

import json
import sys

import pytest

from phalanx_benchmarks import means, report
from phalanx_benchmarks.actor_systems.makers import maker_of as actor_maker_of
from phalanx_benchmarks.command import run
from phalanx_benchmarks.measure import EFFORTS
from phalanx_benchmarks.pools.makers import maker_of
from phalanx_benchmarks.row import Row
from phalanx_benchmarks.rows import MICROBENCHMARK, ROWS
from phalanx_benchmarks.rows import actor_systems as actor_rows
from phalanx_benchmarks.rows import pools as pool_rows
from phalanx_benchmarks.runner import Outcome, Ratio, Result, compare, measure
from phalanx_benchmarks.sides import OF_ACTORS, PEER_PYTHON, PEERS, PeerMissing, Side, peer_side

OURS = Side(name="phalanx", version="1", command=())
RAY = Side(name="ray", version="2", command=())
DASK = Side(name="dask", version="3", command=())


def row(name="calls", **changes):
    values = {"unit": "/s", "sample": lambda api, effort: [], "group": "microbenchmark"}
    return Row(name=name, **{**values, **changes})


def outcome(*rounds):
    return Outcome(rounds=tuple(tuple(samples) for samples in rounds))


def result(ours, theirs=None, **changes):
    """Return the result of one round for each side, with these samples."""
    peers = {} if theirs is None else {"ray": outcome(theirs)}
    return Result(row=row(**changes), phalanx=outcome(ours), peers=peers)


@pytest.mark.parametrize(
    ("ours", "theirs", "more_is_better", "ratio"),
    [
        ([30, 10, 20], [2, 5, 4], True, 5),
        ([1, 2, 3], [8], False, 4),
        ([0.0], [5], False, None),
    ],
)
def test_the_ratio_says_how_many_times_better(ours, theirs, more_is_better, ratio):
    found = result(ours, theirs, more_is_better=more_is_better).ratio("ray")
    assert found == (ratio and Ratio(median=ratio, low=ratio, high=ratio))


def test_a_ratio_is_of_what_was_measured_in_the_same_round():
    """If the whole machine is slower in one round, the ratio does not change."""
    ours, theirs = outcome([10, 10], [40, 40], [30]), outcome([1], [4, 4], [2])
    found = Result(row=row(), phalanx=ours, peers={"ray": theirs}).ratio("ray")
    assert found == Ratio(median=10, low=10, high=15)
    assert Result(row=row(), phalanx=ours).ratio("ray") is None


@pytest.mark.parametrize(
    ("samples", "spread"),
    [([10, 10, 10, 10], 0), ([8, 9, 10, 11, 12], 0.15), ([1, 2], None), ([0, 0, 0, 0], None)],
)
def test_the_spread_is_half_of_where_the_middle_half_lies(samples, spread):
    assert outcome(samples).spread == (spread if spread is None else pytest.approx(spread))


def test_the_geometric_means():
    results = [
        result([20], [1], name="a"),
        result([5], [1], name="b", group="programs"),
        result([2], [1], name="c", unit="GB/s"),
        result([1000], [1], name="d", group="starting"),
        result([1000], [1], name="e", aside="two things"),
        result([7], name="f"),
    ]
    found = means.geometric_means(results, "ray")
    assert {name: rows for name, (_, rows) in found.items()} == {
        "without the gigabyte rows": 2,
        "with them": 3,
    }
    assert [mean for mean, _ in found.values()] == pytest.approx([10, 200 ** (1 / 3)])
    assert means.geometric_means(results, "dask") == {}


def test_the_share_of_a_floor_needs_the_floor_in_the_same_run():
    put = result([8], name="put", floors=("copy", "other"))
    assert means.shares_of_floor([put]) == []
    assert means.shares_of_floor([put, result([10], name="copy")]) == [("put", "copy", 0.8)]


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
    results = [
        result([20], [1], name="a"),
        result([7], name="b", aside="it differs"),
        Result(
            row=row("c"),
            phalanx=outcome([90, 100, 100, 110], [50]),
            peers={"ray": outcome([10], [10])},
        ),
    ]
    lines = report.as_markdown(results, [RAY]).splitlines()
    assert lines[:5] == [
        "| row | Phalanx | Ray 2 | times better |",
        "|---|---:|---:|---:|",
        "| a | 20 /s | 1 /s | 20.0× |",
        "| b * | 7 /s | – | – |",
        "| c | 100 /s ±18% | 10 /s | 7.5× (5.0–10.0) |",
    ]
    assert "- geometric mean beside Ray 2, without the gigabyte rows: 12.2× (2 rows)" in lines
    assert "- * in no mean: it differs" in lines


def test_the_document_is_json():
    results = [result([20], [1]), Result(row=row("broken"), phalanx=Outcome(error="no"))]
    document = report.as_document(results, ours=OURS, peers=[RAY], effort_name="quick")
    shown = json.loads(json.dumps(document))
    assert shown["versions"] == {"phalanx": "1", "ray": "2"}
    assert shown["rows"][0]["ratios"] == {"ray": {"median": 20, "low": 20, "high": 20}}
    assert shown["rows"][1]["phalanx"] == {"error": "no"}
    assert shown["machine"]["cores"] >= 1


def asked_of(rows, fails=""):
    asked = []

    def run_row(side, row, effort_name):
        asked.append((row.name, side.name))
        return Outcome(error="no") if side.name == fails else outcome([1.0])

    peers = [RAY, DASK]
    results = list(compare(rows, ours=OURS, peers=peers, effort_name="quick", run=run_row))
    return asked, results


def test_all_sides_are_measured_in_turn_and_each_is_first_as_often():
    asked, results = asked_of([row("a"), row("b", peers=False)])
    rounds = EFFORTS["quick"].rounds
    assert rounds == 4
    pair = [("a", "phalanx"), ("a", "ray")]
    assert asked == [*pair, *pair[::-1], *pair, *pair[::-1], *[("b", "phalanx")] * 4]
    assert results[0].phalanx.samples == (1.0,) * 4
    assert results[1].peers == {}


def test_rows_of_pools_are_measured_on_everybody_and_others_on_those_with_their_names():
    asked, _ = asked_of([row("calls"), row("pool", group="pools", session=False)])
    assert {name for row, name in asked if row == "calls"} == {"phalanx", "ray"}
    assert {name for row, name in asked if row == "pool"} == {"phalanx", "ray", "dask"}


def test_systems_of_actors_are_measured_at_their_own_rows_alone():
    charm = Side(name="charm4py", version="1", command=())
    dask = Side(name="dask", version="1", command=())
    for each in actor_rows.ROWS:
        assert charm.can(each) and not dask.can(each), each.name
    assert not charm.can(row("calls")) and not charm.can(row("pool", group="pools"))


def test_a_side_that_failed_at_a_row_is_not_asked_for_it_again():
    asked, results = asked_of([row("a")], fails="ray")
    assert asked.count(("a", "ray")) == 1
    assert asked.count(("a", "phalanx")) == 4
    assert results[0].peers["ray"].error == "no"


def program(text):
    return Side(name="phalanx", version="1", command=(sys.executable, "-c", text))


def test_a_side_answers_with_one_line_among_others():
    side = program("print('noise'); print('{\"samples\": [1, 2]}')")
    assert measure(side, row(), "quick") == outcome([1, 2])


def test_a_side_that_fails_says_why():
    side = program('print(\'{"error": "no room"}\')')
    assert measure(side, row(), "quick") == Outcome(error="no room")


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
    assert len(MICROBENCHMARK) == 22


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"peer": "ray,celery"}, "the peers are: ray, multiprocessing"),
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
        ("/bin/false", r"pip install phalanx-benchmarks\[peers\]"),
        ("/nowhere/python", "cannot be started"),
    ],
)
def test_a_missing_peer_says_what_to_do(monkeypatch, python, text):
    monkeypatch.setenv(PEER_PYTHON, python)
    with pytest.raises(PeerMissing, match=text):
        peer_side("ray")


def test_a_peer_that_is_here_has_its_version():
    side = peer_side("multiprocessing")
    assert side.version.startswith("3.")
    assert side.command[-1] == "multiprocessing"


def test_every_peer_has_a_pool_or_an_actor_or_is_not_installed():
    for peer in PEERS:
        maker = actor_maker_of if peer in OF_ACTORS else maker_of
        try:
            assert callable(maker(peer))
        except ImportError as error:
            assert peer in ("ray", "joblib", "dask", "parsl", *OF_ACTORS), error
    for maker in (maker_of, actor_maker_of):
        with pytest.raises(ValueError, match="unknown system 'celery'"):
            maker("celery")


def test_an_actor_gives_what_is_called():
    actor = actor_maker_of("phalanx")()
    try:
        assert actor.one_by_one(3) == 3
        assert actor.together(5) == 5
    finally:
        actor.close()


@pytest.mark.parametrize("system", ["multiprocessing", "concurrent.futures", "joblib"])
def test_each_pool_gives_what_its_calls_return(system):
    pool = maker_of(system)()
    try:
        assert pool.results([pool.submit(abs, -n) for n in range(5)]) == list(range(5))
        assert pool.map(abs, range(-3, 0)) == [3, 2, 1]
        assert pool.results([pool.submit(len, pool.share(b"four"))]) == [4]
    finally:
        pool.close()


def test_rows_of_actors_ask_for_what_they_say(monkeypatch):
    class Counting:
        """Counts calls instead of making them."""

        def __init__(self):
            self.calls, self.is_closed = 0, False

        def one_by_one(self, count):
            self.calls += count

        together = one_by_one

        def close(self):
            self.is_closed = True

    def rates(work, *, per_call, effort):
        work()
        return [per_call]

    monkeypatch.setattr(actor_rows, "rates", rates)
    for each in actor_rows.ROWS:
        actor = Counting()
        (calls,) = each.sample(lambda actor=actor: actor, EFFORTS["quick"])
        assert actor.calls == calls and actor.is_closed, each.name


def test_rows_of_pools_ask_for_what_they_say(monkeypatch):
    """A pool that counts stands for the real ones: a row of a thousand calls must make a thousand,
    and wait for all results.
    """

    class Counting:
        def __init__(self):
            self.submitted = self.given = 0

        def submit(self, function, *arguments):
            self.submitted += 1
            return function(*arguments)

        def results(self, submitted):
            self.given += len(submitted)
            return list(submitted)

        def map(self, function, items):
            return self.results([self.submit(function, item) for item in items])

        def share(self, value):
            return value

        def close(self):
            pass

    def rates(work, *, per_call, effort):
        work()
        return [per_call]

    monkeypatch.setattr(pool_rows, "rates", rates)
    for each in pool_rows.ROWS[1:]:
        pool = Counting()
        (calls,) = each.sample(lambda pool=pool: pool, EFFORTS["quick"])
        assert pool.submitted == pool.given == calls, each.name
