"""The output of ended jobs waits for the next process of its node, but not for ever."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from phalanx.runtime.os import kept_identity, kept_records, kept_sessions
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.job_files import JobDirectories

HEAD, NAME = "10.0.0.1:6380", "n1"


@pytest.fixture
def root():
    """Yield a directory with a short path, because the paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="px-") as folder:
        yield str(Path(folder) / "r")


def session_of(root: str, node_id: str, name: str = NAME) -> sessions.Session:
    """Return the session of a node that begins now."""
    made = kept_sessions.create(root, HEAD, name)
    kept_records.identify(made.kept, HEAD, name, node_id)
    return made


def dead(session: sessions.Session) -> None:
    """Let the session's process be one that has ended."""
    path = Path(session.directory, "owner")
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', '"pid": 1'))


def prints(session: sessions.Session) -> Path:
    """Return the output of a job that has run on the node."""
    log = Path(session.jobs, "job", "worker-0.1.log")
    log.parent.mkdir(parents=True)
    log.write_text("said\n")
    return log


@pytest.mark.parametrize("is_over", [True, False])
def test_the_next_process_of_a_node_gets_the_output(root, is_over):
    first = session_of(root, "a")
    log = prints(first)
    Path(first.kept, "member-1").touch()
    sessions.leave(first, is_over=is_over, keeps=True)
    dead(first)
    sessions.sweep(root)
    then = session_of(root, "b")
    assert (then.disk, then.name == first.name) == (first.disk, False)
    assert log.read_text() == "said\n"
    assert kept_identity.has_members(then.kept) is not is_over
    found = kept_identity.read_identity(then.kept)
    assert found is not None
    assert found.nodes == ["a", "b"]
    sessions.remove(then)


def test_without_output_nothing_stays(root):
    first = session_of(root, "a")
    sessions.leave(first, is_over=True, keeps=True)
    assert not os.path.exists(first.directory)


def test_another_node_does_not_get_the_output(root):
    first = session_of(root, "a")
    prints(first)
    sessions.leave(first, is_over=True, keeps=True)
    dead(first)
    other = session_of(root, "b", "n2")
    assert other.disk != first.disk
    for session in (first, other):
        sessions.remove(session)


def test_old_output_and_output_of_another_boot_are_swept(root, monkeypatch):
    first = session_of(root, "a")
    prints(first)
    sessions.leave(first, is_over=True, keeps=True)
    dead(first)
    sessions.sweep(root)
    assert os.path.exists(first.disk)
    monkeypatch.setattr(kept_identity, "boot_id", lambda: "another")
    sessions.sweep(root)
    assert not os.path.exists(first.disk)
    monkeypatch.undo()
    then = session_of(root, "a")
    prints(then)
    sessions.leave(then, is_over=True, keeps=True)
    dead(then)
    os.utime(then.kept, (0, 0))
    sessions.sweep(root)
    assert not os.path.exists(then.disk)


def test_output_is_deleted_on_request(root):
    first = session_of(root, "a")
    prints(first)
    sessions.leave(first, is_over=True, keeps=True)
    dead(first)
    kept_sessions.delete_output(root)
    assert not os.path.exists(first.disk)
    assert not os.path.exists(first.directory)


def test_earlier_logs_are_found_the_oldest_first(tmp_path):
    for name, at in (("a", 300.0), ("b", 100.0), ("c", 200.0)):
        log = tmp_path / name / f"worker-0.{at:.0f}.log"
        log.parent.mkdir()
        log.touch()
        os.utime(log, (at, at))
    home = tmp_path / "a" / "home"
    home.mkdir()
    (home / "train.1.log").write_text("a user's own file")
    (tmp_path / "a" / "worker-0.2.log").symlink_to(home / "train.1.log")
    found = JobDirectories(str(tmp_path)).earlier_logs()
    assert [Path(path).parent.name for path, _ in found] == ["b", "c", "a"]
    assert found[0][1] - found[2][1] == pytest.approx(200.0)
