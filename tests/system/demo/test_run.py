"""The demo as a whole, small."""

from __future__ import annotations

import json

import pytest

import phalanx
from phalanx_research.demo import command, run, training

pytest.importorskip("sklearn")


@pytest.fixture(scope="module", autouse=True)
def session():
    phalanx.shutdown()
    phalanx.init(num_cpus=2)
    yield
    phalanx.shutdown()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 4)
    monkeypatch.setattr(command, "BURST_TASKS", 20)
    monkeypatch.setattr(command, "GOOD_ACCURACY", 0.9)


def test_it_searches_trains_and_tells(capsys):
    assert run(trials=3, workers=2) == 0
    out = capsys.readouterr().out
    assert "search, 3 trials: 3 of 3 done" in out
    assert "training, 2 workers, 4 epochs: 4 of 4 done" in out
    assert "accuracy on the test images" in out
    assert "bytes moved without copying" in out
    assert "queue language: a gang of 2 waits. Why?" in out
    assert "1 of those that wait in its queue" in out
    assert "an urgent gang preempted the first one" in out


def test_json_stands_alone_on_standard_output(capsys):
    assert run(trials=2, workers=1, json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["ok"]
    assert shown["problems"] == []
    assert len(shown["search"]["trials"]) == 2
    assert shown["training"]["test_accuracy"] > 0.9
    assert (shown["teams"]["members"], shown["teams"]["starts"]) == (2, 2)
    assert shown["in_place_bytes"] > 3 * shown["data_bytes"]


def test_more_workers_than_cpus_still_train(capsys):
    assert run(trials=2, workers=3, json=True) == 0


def test_a_poor_accuracy_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(command, "GOOD_ACCURACY", 1.01)
    assert run(trials=2, workers=1) == 1
    assert "is expected" in capsys.readouterr().err


def test_a_failed_trial_is_told_and_the_rest_goes_on(monkeypatch, capsys):
    from phalanx_research.demo import search

    whole = search.try_settings
    first = search.sample_settings(2, command.SEED)[0]

    def fails_once(settings, data, seed):
        if settings == first:
            raise RuntimeError("no luck")
        return whole(settings, data, seed)

    monkeypatch.setattr(search, "try_settings", fails_once)
    assert run(trials=2, workers=1) == 1
    captured = capsys.readouterr()
    assert "no luck" in captured.err
    assert "accuracy on the test images" in captured.out


def test_without_any_trial_there_is_nothing_to_train(monkeypatch, capsys):
    from phalanx_research.demo import search

    def fails(settings, data, seed):
        raise RuntimeError("no luck")

    monkeypatch.setattr(search, "try_settings", fails)
    assert run(trials=2, workers=1) == 1
    assert "nothing to train" in capsys.readouterr().err
