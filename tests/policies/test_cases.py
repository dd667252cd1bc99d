"""The runner of case files: right tables agree, and any wrong expectation is found."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from phalanx.policies.cases.__main__ import main
from phalanx.policies.cases.compare import Unusable
from phalanx.policies.cases.document import AREAS, findings

TABLES = Path(__file__).parent / "tables"
EXPECTATIONS = (
    "expect", "left", "available_MiB", "ids", "whole", "fractional", "any_of", "out",
    "pack", "pack_w", "sequential", "first_fit",
)  # fmt: skip


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((TABLES / name).read_text(encoding="utf-8"))
    return document


@pytest.mark.parametrize("name", ["placement.yaml", "selector.yaml", "wiring.yaml"])
def test_our_own_tables_hold(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(TABLES / name)]) == 0, capsys.readouterr()
    assert ", 0 differ" in capsys.readouterr().out


def test_every_area_has_a_case_here() -> None:
    assert {case["area"] for case in load("placement.yaml")["cases"]} == set(AREAS)


def wrong(document: dict[str, Any], section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case of a section alone, with one expectation replaced by another value."""
    for case in document[section]:
        for path, value in expected_values(case):
            changed = copy.deepcopy(case)
            place: Any = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = other_than(value)
            rest = {key: value for key, value in document.items() if key in ("machines", "config")}
            name = f"{case.get('id', case)} {path}"
            yield name, {**rest, section: [changed]}


def expected_values(
    value: Any, path: tuple[Any, ...] = (), *, inside: bool = False
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            is_given = key in ("nodes", "node", "before", "add") and not inside
            is_operand = key == "left" and not path  # of sets; in steps it is what is left
            if not is_given and not is_operand and key != "each_seen":
                now = inside or key in EXPECTATIONS or (key == "id" and "steps" in path)
                yield from expected_values(one, (*path, key), inside=now)
    elif isinstance(value, list) and value and not (inside and "any_of" in path):
        for at, one in enumerate(value):
            yield from expected_values(one, (*path, at), inside=inside)
    elif inside and value != "error" and path[-1] != "error":
        yield path, value


def other_than(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return "something else" if isinstance(value, str) else ["something else"]


MUTANTS = [
    pytest.param(document, id=f"{name} {section} {what}")
    for name, sections in (
        ("placement.yaml", ["cases"]),
        ("selector.yaml", ["gpu_mask_choice", "scenarios", "ranges"]),
        ("wiring.yaml", ["cases"]),
    )
    for section in sections
    for what, document in wrong(load(name), section)
    if "dynamic_within" not in what  # a wider or shifted range may hold the ports just as well
]


@pytest.mark.parametrize("document", MUTANTS)
def test_a_wrong_expectation_is_found(document: dict[str, Any]) -> None:
    assert not agrees(document)


def agrees(document: dict[str, Any]) -> bool:
    for _, found in findings(yaml.safe_dump(document, sort_keys=False)):
        if isinstance(found, Unusable) or not all(one.agrees for one in found):
            return False
    return True


def test_what_differs_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(
        "cases:\n"
        "- {id: one, area: hybrid, nodes: {local: {total: {CPU: 1}}}, request: {CPU: 1},"
        " expect: far}\n"
        "- {id: two, area: scorer, available: {CPU: 4}, request: {CPU: 1}, expect: 0.75}\n"
    )
    assert main([str(file)]) == 1
    assert capsys.readouterr().out == "one: expected far, got local\n2 cases, 1 differ\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "not YAML"),
        ("[]", "is a mapping"),
        ("version: 1", "no cases"),
        ("cases: [{id: x, area: magic}]", "x: cannot be understood: unknown area 'magic'"),
        ("cases: [{id: x}]", "lacks 'area'"),
        ("cases: [{id: x, area: fit}]", "lacks 'node'"),
        (
            "cases: [{id: x, area: hybrid, nodes: {}, request: {}, options: {z: 1}, expect: none}]",
            "unknown key 'z'",
        ),
        ("cases: [{id: x, area: scorer, available: 3, request: {}, expect: 1}]", "AttributeError"),
        ("cases: [{id: x, area: instances, before: {}, steps: []}]", "expects nothing"),
        ("ranges: [{op: rotate, a: [], out: []}]", "unknown operation on ranges 'rotate'"),
        ("machines: {m: {topo_m: [X PIX, PIX]}}\ncases: []", "machine m: GPU1 has 1 links"),
    ],
)
def test_files_that_cannot_be_used(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert told in capsys.readouterr().err


def test_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["/no/such/file"]) == 2
    assert "usage" in capsys.readouterr().err


def test_as_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "phalanx.policies.cases", str(TABLES / "wiring.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "6 cases, 0 differ\n"), done.stderr
