"""A session's directories: private, removed when their owner is dead, refused if they belong to
another account.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from phalanx.runtime.os import session as sessions


@pytest.fixture
def root():
    """Yield a directory with a short path, because the paths of sockets are limited."""
    with tempfile.TemporaryDirectory(prefix="px-") as folder:
        yield Path(folder) / "r"


@pytest.fixture
def session(root):
    made = sessions.create(str(root))
    yield made
    sessions.remove(made)


def test_every_directory_is_private(root, session):
    for path in (root, session.directory, session.sockets, session.logs, session.shared):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(session.spill).st_mode) == 0o700


def test_remove_leaves_nothing_and_may_be_repeated(root, session):
    Path(session.shared, "object").write_bytes(b"x")
    for _ in range(2):
        sessions.remove(session)
    assert list(root.iterdir()) == []
    assert not os.path.exists(session.shared)


def owner_of(session):
    return Path(session.directory, "owner")


def test_a_living_session_is_not_swept(root, session):
    sessions.sweep(str(root))
    assert owner_of(session).exists()
    assert os.path.exists(session.shared)


def test_a_session_whose_owner_is_dead_is_swept_by_the_next(root, session):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    record = json.loads(owner_of(session).read_text())
    owner_of(session).write_text(json.dumps({**record, "pid": process.pid}))
    Path(session.spill, "object").write_bytes(b"x")
    other = sessions.create(str(root))
    try:
        left = {p.name for p in root.iterdir()}
        own = (other.directory, other.spill, other.disk)
        assert left == {os.path.basename(place) for place in own}
        assert not os.path.exists(session.shared)
    finally:
        sessions.remove(other)


def test_what_must_not_outlive_a_session_is_ended_with_its_directories(root, session):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    daemon = subprocess.Popen(["sleep", "1000"])
    sessions.note_helper(session.directory, daemon.pid)
    sessions.sweep(str(root))
    assert daemon.poll() is None
    record = json.loads(owner_of(session).read_text())
    owner_of(session).write_text(json.dumps({**record, "pid": dead.pid}))
    sessions.sweep(str(root))
    assert daemon.wait() == -signal.SIGKILL


def test_a_pid_that_was_given_again_is_not_taken_for_the_owner(root, session):
    record = json.loads(owner_of(session).read_text())
    assert record["pid"] == os.getpid()
    owner_of(session).write_text(json.dumps({**record, "started": "1"}))
    sessions.sweep(str(root))
    assert not os.path.exists(session.directory)


@pytest.mark.parametrize("record", ["", "{", "[]", "{}", "7", '{"pid": 1}', '{"pid": null}'])
def test_records_that_say_nothing_are_left_alone(root, session, record):
    before = owner_of(session).read_text()
    owner_of(session).write_text(record)
    sessions.sweep(str(root))
    assert os.path.exists(session.directory)
    owner_of(session).write_text(before)


@pytest.mark.parametrize("squat", ["readable", "a file", "a link"])
def test_a_place_that_is_not_private_is_refused(root, squat):
    if squat == "readable":
        root.mkdir(mode=0o755)
    elif squat == "a file":
        root.write_text("")
    else:
        other = root.parent / "theirs"
        other.mkdir(mode=0o700)
        root.symlink_to(other)
    with pytest.raises(PermissionError, match="mode 0700"):
        sessions.create(str(root))


def test_a_place_of_somebody_else_is_refused(root, monkeypatch):
    root.mkdir(mode=0o700)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(PermissionError, match="of this user"):
        sessions.create(str(root))


def test_a_process_is_known_by_its_start():
    me = sessions.started_at(os.getpid())
    assert me is not None
    assert me == sessions.started_at(os.getpid())
    assert sessions.started_at(2**30) is None
