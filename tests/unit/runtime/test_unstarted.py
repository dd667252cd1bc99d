"""Why a command could not be started, in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from phalanx.runtime.os.unstarted import why_not_entered, why_not_executed


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOENT, "there is no directory /d on this node"),
        (errno.EACCES, "the directory /d cannot be entered: Permission denied"),
        (errno.ENOTDIR, "the directory /d cannot be entered: Not a directory"),
    ],
)
def test_a_directory(number: int, why: str) -> None:
    assert why_not_entered("/d", error(number)) == why


def test_a_program_that_is_not_there() -> None:
    missing = error(errno.ENOENT)
    assert why_not_executed("no-such", {"PATH": "/"}, missing) == (
        127,
        "there is no command no-such",
    )
    assert why_not_executed("./p", {}, error(errno.EACCES)) == (
        126,
        "./p could not be started: Permission denied",
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#!/no/such -u\n", "the interpreter /no/such of {} is not on this node"),
        (b"\x7fELF", "{} is built for another system: its loader is not on this node"),
    ],
)
def test_what_runs_the_program_is_not_there(tmp_path: Path, content: bytes, why: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    found = why_not_executed("program", {"PATH": f"/no:{tmp_path}"}, error(errno.ENOENT))
    assert found == (127, why.format(program))
