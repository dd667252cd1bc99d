"""Two builds are measured alternately, and each pair of batches gives one ratio."""

from __future__ import annotations

import os
import sys

import pytest

from phalanx_benchmarks import paired_builds

STAND_IN = """#!{python}
import sys
print("task\\tput", flush=True)
for line in sys.stdin:
    print({{"task": {seconds}, "put": 1.0}}[line.strip()], flush=True)
"""


def stand_in(directory, seconds):
    """Write a program that replaces a build's interpreter. Each batch that it runs takes
    `seconds`.
    """
    path = directory / f"python-{seconds}"
    path.write_text(STAND_IN.format(python=sys.executable, seconds=seconds))
    path.chmod(0o755)
    return os.fspath(path)


def test_each_batch_is_paired_with_one_of_the_other_build(tmp_path, monkeypatch, capsys):
    this, other = stand_in(tmp_path, 0.001), stand_in(tmp_path, 0.002)
    monkeypatch.setattr(sys, "executable", this)
    monkeypatch.setattr(sys, "argv", ["paired_builds", other, "--batches", "3"])
    paired_builds.main()
    header, task, put = capsys.readouterr().out.splitlines()
    assert header.split() == ["row", "ratio", "quartiles", "other", "this"]
    assert task.split() == ["task", "0.50", "0.50", "-", "0.50", "2000.0", "µs", "1000.0", "µs"]
    assert put.split()[1] == "1.00"


def test_a_build_that_ends_is_named(tmp_path):
    nothing = tmp_path / "nothing"
    nothing.write_text("#!/bin/sh\n")
    nothing.chmod(0o755)
    with pytest.raises(SystemExit, match="a build ended"):
        paired_builds.pairs(os.fspath(nothing), sessions=1, batches=1)


@pytest.mark.slow
def test_a_build_beside_itself(capsys):
    found = paired_builds.pairs(sys.executable, sessions=1, batches=4)
    assert len(found) == 8
    assert all(len(batches) == 4 and min(map(min, batches)) > 0 for batches in found.values())
