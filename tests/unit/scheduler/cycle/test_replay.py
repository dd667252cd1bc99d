"""The command `phalanx plan` of files: outputs, exit codes, and errors that name the line."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.scheduler.cycle.lines import cases, replay_text
from tests.unit.scheduler.cycle.test_tables import CASES, snapshot_of, written

from phalanx.cli.snapshots import replay_file
from phalanx.errors import BatchFileError
from phalanx.scheduler.cycle.reading import FORMAT, read_snapshots
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.cycle.writing import as_data

TWO_CYCLES = """
use allocate, preempt | priority, gang(on=[jobReady, jobPipelined]) | predicates, nodeorder
case one makes room for the other
node n 1c 1G
queue q
gang low q min=0 prio=1
gang high q min=1 prio=9
task a low 1c 1G @n
task b high 1c 1G
"""


def listed(snapshots: Sequence[Snapshot]) -> str:
    """Return a file with several snapshots."""
    bodies = [{k: v for k, v in as_data(one).items() if k != "format"} for one in snapshots]
    return json.dumps({"format": FORMAT, "snapshots": bodies})


def run(path: Path, *, as_json: bool = False, cycles: int = 1) -> tuple[int, str, str]:
    out, bad = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(bad):
        code = replay_file(str(path), as_json=as_json, cycles=cycles)
    return code, out.getvalue(), bad.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.yaml"
    case: Any = next(c.values[0] for c in CASES if "bind_count: 1\n" in written(c.values[0]))  # type: ignore[arg-type]
    path.write_text(written(case))
    return path


def test_right_and_wrong_expectations(file: Path) -> None:
    code, out, _ = run(file)
    assert (code, out.split()[0]) == (0, "ok")
    file.write_text(file.read_text().replace("bind_count: 1", "bind_count: 7"))
    assert "bind_count: 7" in file.read_text()
    code, out, _ = run(file)
    assert code == 1
    assert "7 binds are expected, 1 made" in out


def test_nothing_expected_is_neither_right_nor_wrong(file: Path) -> None:
    file.write_text(file.read_text().split("expect:")[0])
    code, out, _ = run(file, as_json=True)
    assert code == 0
    assert json.loads(out)["ok"] is None


def test_json_has_the_keys_of_the_format(file: Path) -> None:
    _, out, _ = run(file, as_json=True)
    data = json.loads(out)
    assert list(data) == ["name", "binds", "evicted", "pipelined", "phases", "rejections", "ok"]


def test_a_list_of_snapshots_prints_a_list(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(listed([snapshot_of(c.values[0]) for c in CASES[:2]]))  # type: ignore[arg-type]
    code, out, _ = run(path, as_json=True)
    assert code == 0
    assert [x["ok"] for x in json.loads(out)] == [True, True]


def test_one_snapshot_that_speaks_of_snapshots_prints_no_list(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("notes: one of many snapshots\nconfig: {actions: [allocate]}\n")
    code, out, _ = run(path, as_json=True)
    assert (code, json.loads(out)["ok"]) == (0, None)


def test_cycles_go_on_from_what_the_last_left(tmp_path: Path) -> None:
    path = tmp_path / "cycles.yaml"
    path.write_text(written(cases(TWO_CYCLES)[0]))
    first = json.loads(run(path, as_json=True)[1])
    assert (first["evicted"], first["pipelined"]) == (["default/a"], {"default/b": "n"})
    both = json.loads(run(path, as_json=True, cycles=2)[1])
    assert both["binds"] == {"default/b": "n"}
    assert "default/a" in both["rejections"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{one}'] * 10)}]\n" for one, after in pairwise("abcdefg")
)
BAD = [
    ("config: {actions: [fly]}", "there is no action 'fly'", 1),
    ("config: {actions: [allocate]}\nnods: []", "no key 'nods'", 2),
    ("config:\n  actions: [allocate]\n  tiers:\n  - plugins:\n    - {name: gnag}", "'gnag'", 5),
    ("config: {actions: [allocate]}\nnodes:\n- {name: a}\n- {name: a}", "holds 'a' twice", 4),
    ("config: {actions: [allocate]}\nnodes:\n- {name: a, capacity: {cpu: -1}}", "from 0 to", 3),
    ("config: {actions: [allocate]}\nnodes:\n- {name: a, capacity: {cpu: x}}", "number", 3),
    ("config: {actions: [allocate]}\nnodes:\n- {name: a, capacity: {cpu: 1.0e+14}}", "to 1e+13", 3),
    ("config: {actions: [allocate]}\nqueues:\n- {name: a, weight: -1}", "0 or more", 3),
    ("config: {actions: [allocate]}\nnow: 1.0e+19", "from -1e+18 to 1e+18", 2),
    ("config: {actions: [allocate]}\nseed: " + "9" * 30, "from -1e+18 to 1e+18", 2),
    (
        "config: {actions: [allocate]}\nhypernodes:\n- {name: a, tier: 1, parent: b}\n"
        "- {name: b, tier: 2, parent: a}",
        "'a' lies within",
        3,
    ),
    (
        "config: {actions: [allocate]}\nqueues:\n- {name: a, hierarchy_path: " + "a/" * 101 + "}",
        "at most 100 steps",
        3,
    ),
    (
        "config: {actions: [allocate]}\nnodes:\n"
        + "".join(f"- {{name: n{i}, capacity: {{memory: 9.0e+15}}}}\n" for i in range(500)),
        "more than 4e+18 of memory",
        447,
    ),
    (BOMB, "aliases", 2),
    ("a: &a [*a]", "aliases", 1),
    ("config: {actions: [allocate]}\ntasks:\n- {name: t, podgroup: g, node: b}", "not listed", 3),
    ("config: {actions: [allocate]}\nformat: other", "phalanx-snapshot/1", 2),
    ("config: {actions: [allocate]\n", "", 2),
    ("- 1", "", 1),
    ("", "", 1),
]


@pytest.mark.parametrize(("text", "reason", "line"), BAD)
def test_a_bad_file_is_refused_with_its_line(
    tmp_path: Path, text: str, reason: str, line: int
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    code, out, bad = run(path)
    assert (code, out) == (2, "")
    assert bad.startswith(f"{path}:")
    assert reason in bad
    if reason:
        assert bad.startswith(f"{path}:{line}:")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    code, _, bad = run(tmp_path / "none.yaml")
    assert code == 2
    assert "none.yaml" in bad


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_reads_back_the_same(case: dict[str, Any]) -> None:
    snapshot = snapshot_of(case)
    assert read_snapshots(json.dumps(as_data(snapshot)), known_plugins()) == (snapshot,)


def test_a_text_of_several_snapshots_reads_back() -> None:
    several = tuple(snapshot_of(c.values[0]) for c in CASES[:3])  # type: ignore[arg-type]
    assert read_snapshots(listed(several), known_plugins()) == several
    assert [o.ok for o in replay_text(listed(several))] == [True] * 3


WILD = [None, -1, 0, 1.5, "x", "", [], {}, True, [1], {"a": 1}, 10**30, ["a"], float("inf")]


@pytest.mark.parametrize("seed", range(60))
def test_a_wrong_value_anywhere_is_refused_or_lived_with(seed: int) -> None:
    """One value of a snapshot is replaced by a random one. The command may raise no error except
    BatchFileError.
    """
    rng = random.Random(seed)
    drawn: Any = rng.choice(CASES).values[0]
    case: dict[str, Any] = copy.deepcopy(drawn)
    for _ in range(3):
        spot = rng.choice(list(_spots(case)))
        holder, key = spot
        holder[key] = rng.choice(WILD)
        try:
            replay_text(yaml.safe_dump(case, sort_keys=False))
        except BatchFileError as e:
            assert str(e)


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _spots(value[key])
