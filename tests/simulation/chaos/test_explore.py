"""`make explore` tries random seeds for a while, and records those that fail."""

from __future__ import annotations

import msgspec
import pytest

from phalanx_research.chaos import explore
from phalanx_research.chaos.run import try_seed


@pytest.fixture
def trials(monkeypatch):
    """Return the list of the seeds that `explore` has tried. No world runs: a trial takes a second
    of a made-up clock, and every third one fails.
    """
    tried = []
    good, world = try_seed(8)
    broken = msgspec.structs.replace(good, broken="a task ran twice", story=("who did what",))

    def one(seed):
        tried.append(seed)
        result = broken if len(tried) % 3 == 0 else good
        return msgspec.structs.replace(result, seed=seed), world

    monkeypatch.setattr(explore, "try_seed", one)
    monkeypatch.setattr("phalanx_research.chaos.explore.time.monotonic", lambda: float(len(tried)))
    return tried


def test_it_ends_in_time_and_keeps_the_seeds_that_failed(trials, tmp_path, capsys):
    found = tmp_path / "seeds.txt"
    found.write_text("7  # known\n")
    assert explore.main(["--seconds", "5", "--found", str(found)]) == 1
    assert trials == list(range(trials[0], trials[0] + 5))
    known, new = found.read_text().splitlines()
    assert known == "7  # known"
    assert new == f"{trials[2]}  # a task ran twice"
    said = capsys.readouterr().out
    assert "who did what" in said
    assert f"phalanx simulate --chaos --seed {trials[2]}" in said
    assert f"5 seeds from {trials[0]} to {trials[4]}, 1 failed" in said


def test_it_is_content_when_none_fails(trials):
    assert explore.main(["--seconds", "2"]) == 0
