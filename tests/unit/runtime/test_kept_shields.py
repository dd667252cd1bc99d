"""A kept command continues when the process that started it has ended, and its shield writes how
the command has ended.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest
from tests.command_starting import new_start, start_command, subreaper
from tests.polling import eventually
from tests.present import present
from tests.system.chaos.footprint import is_running

from phalanx.runtime.os import child_calls
from phalanx.runtime.os.exit_files import is_held, is_shield_of, read_exit_file
from phalanx.runtime.os.process_tree import children_of


@pytest.fixture(params=["calls of C", "Python"])
def starter(request, monkeypatch):
    """Return a starter of each of the two kinds."""
    if request.param == "Python":
        monkeypatch.setattr(child_calls, "_c", SimpleNamespace(getcontext=None))
        start = new_start()
        monkeypatch.undo()
    else:
        start = new_start()
    return start


@pytest.fixture
def orphan(tmp_path, starter):
    """Return a function that starts a kept command from a process, kills that process, and returns
    what the exit file says.
    """
    path = str(tmp_path / "exit")

    def start(script):
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                lifeline = os.pipe()[0]
                start_command(
                    ["sh", "-c", script],
                    {},
                    str(tmp_path),
                    str(tmp_path / "log"),
                    start=starter,
                    lifeline=lifeline,
                    exit_file=path,
                )
            finally:
                os.kill(0, signal.SIGKILL)
        os.waitpid(pid, 0)
        eventually(lambda: read_exit_file(path) is not None, "the command")
        begun = present(read_exit_file(path))
        assert is_shield_of(begun.shield, path)
        assert is_held(path)
        return begun

    with subreaper():
        yield start
    if (begun := read_exit_file(path)) is not None and is_shield_of(begun.shield, path):
        os.kill(begun.shield, signal.SIGKILL)
        os.waitpid(begun.shield, 0)


@pytest.mark.parametrize(
    ("ending", "code"), [("exit 0", 0), ("exit 41", 41), ("kill -TERM $$", -signal.SIGTERM)]
)
def test_how_a_command_ended_whose_starter_was_killed_is_in_its_exit_file(
    orphan, tmp_path, ending, code
):
    go = tmp_path / "go"
    os.mkfifo(go)
    begun = orphan(f"read line < {go}; echo said; {ending}")
    assert begun.code is None
    go.write_text("go\n")
    path = str(tmp_path / "exit")
    eventually(lambda: present(read_exit_file(path)).code is not None, "the end")
    ended = present(read_exit_file(path))
    assert (ended.pid, ended.code) == (begun.pid, code)
    assert (tmp_path / "log").read_text() == "said\n"


def test_what_such_a_command_left_behind_is_below_its_shield(orphan, tmp_path):
    begun = orphan(f"setsid sleep 1000 & echo $! > {tmp_path}/left; exit 3")
    path = str(tmp_path / "exit")
    eventually(lambda: present(read_exit_file(path)).code == 3, "the end")
    left = int((tmp_path / "left").read_text())
    assert is_running(left)
    assert left in children_of(begun.shield)
    os.kill(left, signal.SIGKILL)


def test_the_end_of_the_shield_ends_the_command(orphan):
    begun = orphan("sleep 1000")
    os.kill(begun.shield, signal.SIGKILL)
    eventually(lambda: not is_running(begun.pid))


def test_each_exit_file_has_the_pids_of_its_own_shield_and_command(tmp_path, starter):
    paths = [str(tmp_path / f"exit{number}") for number in range(8)]
    with subreaper():
        began = [
            start_command(
                ["sleep", "1000"], {}, str(tmp_path), "/dev/null", start=starter, exit_file=path
            )
            for path in paths
        ]
        eventually(lambda: all(map(read_exit_file, paths)), "all")
        said = [present(read_exit_file(path)) for path in paths]
        for one in began:
            one.shield.end()
            os.waitpid(one.pid, 0)
    assert [(one.shield, one.pid) for one in said] == [(b.shield.pid, b.pid) for b in began]
