"""Checks by pyright the typed programs in `tests`, which `make check` gives to mypy.

A line with a mistake has a comment for mypy. The comment is removed, because pyright has to refuse
the line itself.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[3] / "tests" / "system" / "regressions"
COMMENT = "  # type: ignore["
MISTAKES = (PROGRAMS / "typed_mistakes.py").read_text().splitlines()
REFUSED = [number for number, line in enumerate(MISTAKES) if COMMENT in line]
CONSTRUCTOR = "phalanx.remote("


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Return, by program, the lines that pyright refuses, counted from 0."""
    root = tmp_path_factory.mktemp("types")
    there = root / "tests" / "system" / "regressions"
    there.mkdir(parents=True)
    shutil.copy(PROGRAMS / "typed_program.py", there)
    bare = "\n".join(line.split(COMMENT)[0] for line in MISTAKES)
    (there / "typed_mistakes.py").write_text(bare)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "tests"], cwd=root, capture_output=True, text=True, check=False
    )
    found: dict[str, set[int]] = {"typed_program.py": set(), "typed_mistakes.py": set()}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).name].add(one["range"]["start"]["line"])
    return found


def test_a_program_without_mistakes(errors: dict[str, set[int]]) -> None:
    assert errors["typed_program.py"] == set()


@pytest.mark.parametrize("number", REFUSED, ids=lambda number: MISTAKES[number].strip()[:60])
def test_a_mistake_is_refused(errors: dict[str, set[int]], number: int) -> None:
    if CONSTRUCTOR in MISTAKES[number].split("typed(")[0]:
        pytest.skip("pyright does not see what the constructor of an actor takes")
    assert number in errors["typed_mistakes.py"]
