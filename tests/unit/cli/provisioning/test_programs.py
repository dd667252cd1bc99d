"""Programs of pools that succeed, fail, hang or give false answers."""

from __future__ import annotations

import re
import sys

import msgspec
import pytest

from phalanx.cli.provisioning.pools import Pool
from phalanx.cli.provisioning.programs import run

POOL = Pool(name="p", up=("up",), down=("down",), resources={"CPU": 1.0}, max=3)
NAMES = ["p-1", "p-2"]


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import json, sys; {script}")


def test_a_program_gets_the_request_and_prints_names() -> None:
    script = "r = json.load(sys.stdin); print(*r['names'], sep='\\n'); sys.exit(r['head'] != 'h:1')"
    assert run(POOL, python(script), NAMES, "h:1") == (("p-1", "p-2"), "")


@pytest.mark.parametrize(
    ("script", "names", "failure"),
    [
        ("print('p-1'); sys.exit('no quota')", ("p-1",), r"failed \(exit code 1\): no quota"),
        ("print('p-9'); print('p-2'); print('p-2')", ("p-2",), ""),
        ("sys.stdout.buffer.write(b'\\xff\\n')", (), ""),
        ("import os; os.kill(os.getpid(), 9)", (), r"failed \(signal 9\)"),
    ],
)
def test_only_names_of_the_request_count(script: str, names: tuple[str, ...], failure: str) -> None:
    found = run(POOL, python(script), NAMES, "h:1")
    assert found.names == names
    assert (failure == "") == (found.failure == "")
    if failure:
        assert re.search(failure, found.failure)


def test_a_program_that_hangs_is_killed_with_what_it_has_started() -> None:
    pool = msgspec.structs.replace(POOL, limit_s=1.0)
    script = "import subprocess; print('p-1', flush=True); subprocess.run(['sleep', '1000'])"
    found = run(pool, python(script), NAMES, "h:1")
    assert found.failure.endswith("has not ended within 1 s")


def test_a_program_that_is_missing_is_named() -> None:
    assert "cannot be run" in run(POOL, ("/nowhere/up",), NAMES, "h:1").failure
