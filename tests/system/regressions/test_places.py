"""The directories in which a session keeps its files."""

from __future__ import annotations

import os

import pytest

import phalanx
from phalanx.runtime.os import session as sessions

PROGRAM = """
    import phalanx
    context = phalanx.init(num_cpus=1)
    print(phalanx.get(phalanx.remote(lambda: 3).remote(), timeout=120))
"""


@pytest.mark.parametrize("variable", ["TMPDIR", "XDG_RUNTIME_DIR"])
def test_a_directory_too_deep_for_sockets_is_passed_over(run_program, tmp_path, variable):
    """The node ended immediately, because the path of a Unix socket holds at most 107 bytes."""
    deep = tmp_path / ("x" * 120)
    deep.mkdir(mode=0o700)
    others = {"TMPDIR": "", "XDG_RUNTIME_DIR": ""}
    assert run_program(PROGRAM, **{**others, variable: str(deep)}) == (0, "3\n")


def test_a_chosen_directory_that_is_too_deep_is_refused(tmp_path):
    phalanx.shutdown()
    with pytest.raises(ValueError, match="is too long: sockets"):
        phalanx.init(num_cpus=1, _temp_dir=str(tmp_path / ("x" * 120)))


def test_objects_do_not_spill_into_the_memory_of_the_runtime_directory(monkeypatch, tmp_path):
    short = os.path.join("/tmp", f"phalanx-test-{os.getpid()}")
    os.mkdir(short, mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", short)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    session = sessions.create()
    try:
        assert session.directory.startswith(short)
        assert session.spill.startswith(str(tmp_path))
        assert os.path.isdir(session.spill)
    finally:
        sessions.remove(session)
        os.rmdir(os.path.join(short, "phalanx"))
        os.rmdir(short)
    assert not os.path.exists(session.spill)


def test_a_session_that_could_not_be_made_leaves_nothing(monkeypatch, tmp_path):
    base = os.path.join("/tmp", f"phalanx-test-{os.getpid()}")
    monkeypatch.setattr(sessions, "SHM", str(tmp_path / "missing" / "shm"))
    monkeypatch.setattr("os.access", lambda path, mode: True)
    with pytest.raises(FileNotFoundError):
        sessions.create(base)
    assert os.listdir(base) == []
    os.rmdir(base)
