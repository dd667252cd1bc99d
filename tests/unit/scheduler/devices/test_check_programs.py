"""Health checks as real programs: their output is kept, and none of their processes are left
over.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest
from tests.polling import eventually
from tests.present import present

from phalanx.node.checks import Exit
from phalanx.runtime.os.check_programs import CheckCommands


def run(tmp_path: Path, command: str, kills: bool = False) -> Exit:
    programs = CheckCommands({"c": command}, str(tmp_path))
    programs.start("c", "join")
    if kills:
        eventually(lambda: (tmp_path / "check-c.log").read_text())
        programs.kill()
    return present(eventually(programs.ended))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("exit 0", 0, ""),
        ("echo one; echo two >&2; exit 2", 2, "two"),
        ("printf 'a\\n\\n  last  \\n\\n'; exit 1", 1, "last"),
        ("echo $PHALANX_CHECK $PHALANX_CHECK_WHEN", 0, "c join"),
        ("head -c 20000 /dev/zero | tr '\\0' x; exit 1", 1, "x" * 4096),
        ("kill -9 $$", -9, ""),
        ("cat; echo read", 0, "read"),
        ("ulimit -f", 0, "2048"),  # in force before anything is forked
        ("nice", 0, str(min(os.nice(0) + 10, 19))),  # the tests themselves may run under nice
    ],
)
def test_how_it_ended_and_what_it_said_last(
    tmp_path: Path, command: str, code: int, said: str
) -> None:
    assert run(tmp_path, command) == Exit(code, said)


def test_one_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert run(tmp_path, "/no/such/check").code == 127


def test_one_whose_output_cannot_be_kept_is_not_started(tmp_path: Path) -> None:
    found = run(tmp_path / "none", "exit 0")
    assert found == Exit(None, "No such file or directory")


def test_who_prints_without_end_is_ended(tmp_path: Path) -> None:
    run(tmp_path, "yes")
    assert (tmp_path / "check-c.log").stat().st_size <= 1 << 20


def test_what_it_has_started_ends_with_it(tmp_path: Path) -> None:
    found = run(tmp_path, "sleep 600 & echo $!; exit 0")
    pid = int(found.said)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")
    found = run(tmp_path, "sleep 600 & echo $!; wait", kills=True)
    assert found.code == -9
    pid = int(found.said)
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")
