"""The same seed gives the same run, in any process and under any hash seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from phalanx.cli.typer_app import app
from phalanx.head.groups.table import GroupTable
from phalanx_research.chaos.command import Request, SeedsError, run, seeds_of
from phalanx_research.chaos.run import try_seed

SEED = 8
PROGRAM = """
import json, sys
from phalanx_research.chaos.run import try_seed
print(json.dumps([try_seed(int(seed))[0].digest for seed in sys.argv[1:]]))
"""


def digests(hash_seed, *seeds):
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", PROGRAM, *map(str, seeds)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def test_a_seed_is_the_same_run_in_every_process():
    seeds = (SEED, 5)
    first, second = digests(1, *seeds), digests(2, *seeds)
    assert first == second
    assert len(set(first)) == len(seeds)
    assert try_seed(SEED)[0].digest == first[0]


def test_the_command_prints_what_came_of_each_seed(tmp_path):
    said: list[Any] = []
    trace = tmp_path / "events"
    request = Request(seeds=[SEED], as_json=True, trace=trace)
    assert run(request, write=said.append)
    facts = json.loads(said[0])
    assert facts["ok"]
    assert facts["seed"] == SEED
    assert facts["replay"] == f"phalanx simulate --chaos --seed {SEED}"
    assert facts["digest"] == try_seed(SEED)[0].digest
    lines = trace.read_text().splitlines()
    assert len(lines) > 100
    assert any("faults end here" in line for line in lines)


def test_many_seeds_end_with_a_count():
    said: list[Any] = []
    assert run(Request(seeds=[SEED, 5]), write=said.append)
    assert said[0].startswith(f"seed {SEED}: ok, digest ")
    assert said[-1] == "2 seeds, 0 failed"


@pytest.mark.parametrize(
    ("seed", "seeds", "expected"),
    [(7, None, [7]), (7, "3", [7, 8, 9]), (7, "2-4", [2, 3, 4]), (7, "5-5", [5])],
)
def test_seeds(seed, seeds, expected):
    assert list(seeds_of(seed, seeds)) == expected


@pytest.mark.parametrize("seeds", ["", "0", "-3", "4-2", "x", "1-", "1-2-3"])
def test_what_is_no_seeds(seeds):
    with pytest.raises(SeedsError, match="count, as 100, or a range"):
        seeds_of(1, seeds)


def test_only_one_run_is_told(tmp_path):
    with pytest.raises(SeedsError, match="a single run"):
        run(Request(seeds=[1, 2], trace=tmp_path / "x"), write=print)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--chaos", "--seed", str(SEED)], 0, f"seed {SEED}: ok"),
        (["--chaos", "--seeds", "none"], 2, "a count, as 100, or a range"),
        ([], 2, "give --nodes, --pods"),
    ],
)
def test_the_command_line(arguments, code, said):
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == code
    assert said in result.output


def test_the_command_line_tells_a_broken_promise(monkeypatch):
    monkeypatch.setattr(GroupTable, "node_gone", lambda self, node_id, now: 1 / 0)
    result = CliRunner().invoke(app, ["simulate", "--chaos", "--seeds", "12-13"])
    assert result.exit_code == 1
    assert "raised ZeroDivisionError" in result.output
    assert "Again:  phalanx simulate --chaos --seed" in result.output
